// How a thread is traced (ptrace(2)) by another member, and in which stop it stands: what the tracer's agent
// writes down when it lets go of the thread for a checkpoint, and by which it takes the thread back, after
// the checkpoint or after a restart (docs/decisions/0024-debuggers.md).
#pragma once

#include <cstdint>

namespace cairn {

inline constexpr std::uint32_t max_tracees = 128;      // of one process
inline constexpr std::uint32_t max_trace_notes = 512;  // of one process

enum class TraceStop : std::uint32_t {
    running,      // the tracer has let it run
    in_call,      // the same, inside a system call whose entry the tracer has been told of (PTRACE_SYSCALL)
    interrupted,  // PTRACE_EVENT_STOP for PTRACE_INTERRUPT
    signal,       // a signal is about to be delivered: a breakpoint, a step, a SIGSTOP of the debugger's
    call_entry,   // before a system call
    call_exit,    // behind one
};

// What no call tells of a traced thread, and the hijack library sees go by in its wrapper of ptrace(2).
// Written by the tracer, for the thread's id as the program knows it.
struct TraceNote {
    std::int32_t tid;       // 0: a free place
    std::uint32_t how;      // PTRACE_SEIZE or PTRACE_ATTACH; 0: neither was seen
    std::uint32_t options;  // PTRACE_O_*
    std::uint32_t has_options;
    std::uint32_t
        resume;  // the last of PTRACE_CONT, PTRACE_SYSCALL, PTRACE_SINGLESTEP, ...; 0: none was seen
    std::uint32_t
        asked;  // 1: it is to stop (PTRACE_INTERRUPT), and the tracer hasn't been told of a stop since
};

struct Tracee {
    std::int32_t tid, pid;  // the kernel's
    std::uint32_t seized;   // 1: by PTRACE_SEIZE; 0: by PTRACE_ATTACH or PTRACE_TRACEME
    std::uint32_t options;
    std::uint32_t resume;
    TraceStop stop;      // at first: interrupted, if the tracer waits for a stop that it has asked for
    std::uint32_t told;  // 1: the tracer has been told of the stop by wait(2)
    std::uint32_t
        held;  // 1: it was let go of, and is to be taken back; 2: and then a SIGSTOP is to wait for it
    std::uint64_t park;  // Door::park of its own process
    std::uint64_t mask;
    std::uint64_t registers[27];        // struct user_regs_struct
    std::uint64_t debug[8];             // struct user, u_debugreg
    alignas(8) std::uint8_t info[128];  // TraceStop::signal: its siginfo_t
};

}  // namespace cairn
