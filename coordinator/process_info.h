// What /proc says of a process, as far as the coordinator needs it. Nothing here stops or disturbs the
// process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/region_mapping.h"

namespace cairn::coordinator {

struct ProcessInfo {
    std::string name;  // comm
    char state = '?';  // as in proc(5): R S D T t Z X I
    pid_t parent = 0;
    std::int32_t terminal = 0;     // device number of the controlling terminal, 0: none
    std::uint64_t started_ns = 0;  // CLOCK_BOOTTIME, to 10 ms (clock ticks)
    std::uint32_t threads = 0;
};

// Nothing if there is no such process.
[[nodiscard]] std::optional<ProcessInfo> process_info(pid_t pid);

// "123 (bash)"; "123" if it has gone.
[[nodiscard]] std::string describe(pid_t pid);

// The arguments, joined by spaces, at most `limit` bytes, on one line; "" if it has none (zombie) or may not
// be read.
[[nodiscard]] std::string command_line(pid_t pid, std::size_t limit = 256);

// Path of the controlling terminal with this device number ("/dev/pts/3"), "" for 0 or one that we don't
// know.
[[nodiscard]] std::string terminal_path(std::int32_t device);

// Memory that an image of the process would hold at most, bytes: anonymous memory present or swapped.
[[nodiscard]] std::uint64_t memory_to_save(pid_t pid);

// A process has ended when no thread of it runs any more; its zombie may be left.
[[nodiscard]] bool has_ended(pid_t pid);
[[nodiscard]] bool has_ended(const ProcessInfo& info);

// Was the process executed with NAME=VALUE in its environment? False in the middle of an exec.
[[nodiscard]] bool begins_with(pid_t pid, const std::string& variable);

// Was the process executed as a program of the group with this region, and is it none of our own tools? Its
// loader may not have mapped anything yet. False in the middle of an exec.
[[nodiscard]] bool begins_with_region(pid_t pid, const std::string& region);

// Does it run `cairn`, by which programs are launched, or, in secure-execution mode, a set-id program?
[[nodiscard]] bool is_launcher(pid_t pid);
[[nodiscard]] bool is_secure(pid_t pid);

[[nodiscard]] std::uint64_t boottime_ns();

}  // namespace cairn::coordinator
