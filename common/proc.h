// What /proc says of a process. Parsed anew at each call; errors name the file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/proc_status.h"
#include "common/program_address_text.h"

namespace cairn::proc {

struct MapLine {  // a line of /proc/PID/maps, with what smaps' VmFlags says where it was asked for
    ProgramAddress start, end;
    int prot = 0;  // PROT_*
    bool shared = false;
    std::uint64_t offset = 0;
    std::uint32_t major = 0, minor = 0;
    std::uint64_t inode = 0;
    std::string name;  // path, "[heap]", "" ..., " (deleted)" cut off
    bool deleted = false;
    std::string flags;                 // VmFlags: "rd wr mr mw me ac"; "" if not asked for
    std::uint64_t page_size = 0;       // KernelPageSize, bytes; 0 if not asked for
    std::uint32_t protection_key = 0;  // pkeys(7); 0 if not asked for
};

// Whether what has this name (MapLine::name) was mapped by the kernel itself, which a restart has to move
// into place ("[vdso]", "[vvar]"; "[vvar_vclock]" came with Linux 6.13, others will): any in brackets that is
// neither heap nor stack, nor memory that the program has named (PR_SET_VMA_ANON_NAME).
[[nodiscard]] bool is_kernels_mapping(std::string_view name);

// The fields of /proc/PID/stat (or task/TID/stat) that we use; proc(5).
struct Stat {
    std::string comm;
    char state = '?';
    pid_t ppid = 0, pgrp = 0, session = 0;
    int tty_nr = 0;
    pid_t tpgid = 0;
    unsigned long flags = 0;  // PF_*
    unsigned long utime = 0, stime = 0;
    std::uint64_t start_time = 0;  // clock ticks after boot
    int exit_signal = 0, exit_code = 0;
    long nice = 0;
    long threads = 0;  // of the process, the kernel's own and a dead main thread included
    ProgramAddress start_code, end_code, start_stack, start_data, end_data, start_brk, arg_start, arg_end,
        env_start, env_end;
};

[[nodiscard]] Result<std::string> read_file(const std::string& path);
// The same, below an open folder.
[[nodiscard]] Result<std::string> read_file_in(int folder, const std::string& name);
[[nodiscard]] Result<std::string> read_link(const std::string& path);
[[nodiscard]] Result<std::vector<MapLine>> maps(pid_t pid, bool with_flags);
[[nodiscard]] Result<Stat> stat(pid_t pid);
[[nodiscard]] Result<Stat> stat(pid_t pid, pid_t tid);
[[nodiscard]] Result<Status> status(pid_t pid, pid_t tid);
// The masks of status (CapEff, SigBlk, ...). What is no digit ends the number.
[[nodiscard]] std::uint64_t hexadecimal(const std::string& text);
[[nodiscard]] Result<std::vector<pid_t>> tasks(pid_t pid);
// All processes that we can see, zombies included; none if /proc can't be read.
[[nodiscard]] std::vector<pid_t> processes();
// Children of all threads of a process. Needs CONFIG_PROC_CHILDREN (every distribution has it).
[[nodiscard]] Result<std::vector<pid_t>> children(pid_t pid);
// Of these of its threads.
[[nodiscard]] std::vector<pid_t> children(pid_t pid, const std::vector<pid_t>& threads);
// How many pages all mappings of a process have, whether they are there or not: the first field of
// /proc/PID/statm, which the kernel counts exactly and without looking at the mappings.
[[nodiscard]] Result<std::uint64_t> mapped_pages(pid_t pid);
// How many pages of a process are there and are no file's, nor shared memory's: the second field of
// /proc/PID/statm without the third. Linux counts them on each processor, and adds up what was counted some
// time ago: of many processors this can be wrong by some thousands (since 6.2).
[[nodiscard]] Result<std::uint64_t> anonymous_pages(pid_t pid);
// What a process's time namespace adds to the machine's clocks, ns. 0 where there are no time namespaces.
struct ClockOffsets {
    std::int64_t monotonic = 0, boottime = 0;
};
// `who`: a pid or "self". Of the namespace that his children are born into.
[[nodiscard]] ClockOffsets clock_offsets(const std::string& who);
// Of the time namespace that the process is in itself; 0 where nobody is to be found who tells.
[[nodiscard]] ClockOffsets own_clock_offsets(const std::string& who);
// Of a time namespace, by its inode.
[[nodiscard]] std::optional<ClockOffsets> clock_offsets_in(std::uint64_t space);
// The inode of /proc/WHO/ns/NAME; 0: it can't be had.
[[nodiscard]] std::uint64_t namespace_of(const std::string& who, const char* name);
// What is written to /proc/PID/timens_offsets to have these.
[[nodiscard]] std::string offsets_text(const ClockOffsets& offsets);
// The main thread, or, when it has exited, another that lives; pid if there is none.
[[nodiscard]] pid_t living_thread(pid_t pid);
// The process that a thread belongs to; nothing if it has gone.
[[nodiscard]] std::optional<pid_t> process_of(pid_t tid);
// "123 (bash)", or "123" when it has gone.
[[nodiscard]] std::string label(pid_t pid);

}  // namespace cairn::proc
