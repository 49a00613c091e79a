// Where a restart has room for descriptors of its own beside those of the programs, under a hard limit
// (RLIMIT_NOFILE). The capture asks the same: a checkpoint that its machine couldn't restart is said to be
// one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/schema/process.h"
#include "resources/schema/object.h"

namespace cairn {

struct DescriptorRoom {
    // The restart's own descriptors begin here. It is above every number that a process of the image has,
    // unless `width` says something else.
    int floor = 256;
    // 0: all objects fit above the floor at once. Else they don't: they are kept by other processes
    // (resources/restore/holding.h), and as long as a process is rebuilt the numbers from floor on, so many,
    // are the restart's own. What the process has there is put in place when its memory is.
    int width = 0;

    [[nodiscard]] bool narrow() const { return width != 0; }
    [[nodiscard]] bool is_own(ProgramFd number) const {
        return narrow() && number >= ProgramFd(floor) && number < ProgramFd(floor + width);
    }
};

// `limit`: the hard limit of whoever restarts. `narrow`: although all would fit. Errors (ExitCode::refused)
// say what is too much, and how much would do.
[[nodiscard]] Result<DescriptorRoom> find_descriptor_room(std::span<const schema::Process> processes,
                                                          const schema::Objects& objects, std::uint64_t limit,
                                                          bool narrow = false);

// As far as it may be: the hard limit with CAP_SYS_RESOURCE, the soft one always. Returns what it is now.
std::uint64_t raise_descriptor_limit();

// What a process maps, executes and stands in: each object once, in ascending order. It has them open besides
// its descriptors while it is rebuilt.
[[nodiscard]] std::vector<std::int64_t> needed_to_rebuild(const schema::Process& process);

// Nothing is put at a number that isn't free: so the last descriptor of a process that has every number below
// the limit has to be a duplicate of another one. Its number, none if there are others free; an error
// (ExitCode::refused) if no two descriptors lead to the same description.
[[nodiscard]] Result<ProgramFd> last_descriptor(const schema::Process& process, std::uint64_t limit);

// Does each process that has it open it by itself (files of /proc, /dev/tty, pidfds)?
[[nodiscard]] bool opened_by_each(const schema::Object& object);

}  // namespace cairn
