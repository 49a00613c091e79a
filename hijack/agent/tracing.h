// The part of the agent that a tracer runs: it lets go of the threads that it traces, so that a capture can
// trace them, and takes them back in the stops that they were in. A task has one tracer, and the tracer is a
// thread: nobody else can do this for it. Included by agent.cpp alone, whose rules hold.
#pragma once

#include <linux/ptrace.h>
#include <linux/wait.h>
#include <sys/syscall.h>

#include "common/agent.h"
#include "common/raw.h"

namespace cairn {
namespace tracing {

using raw::call;

constexpr long again = -11, no_such_process = -3, not_permitted = -1;
constexpr long one_process = 1;  // P_PID
constexpr std::uint32_t trap = 5, child = 17, stop = 19;
constexpr std::uint64_t all_signals = ~0ULL;
constexpr std::uint64_t plain_flags = 0x202;
constexpr long registers_set = 1;  // NT_PRSTATUS
constexpr std::int32_t sent_by_tgkill = -6;
constexpr std::int64_t no_call = -1;
enum Register : unsigned { orig_rax = 15, rip = 16, eflags = 18, rax = 10 };  // in struct user_regs_struct

struct Info {  // siginfo_t
    std::int32_t signal, error, code, pad, pid, uid, status;
    std::int32_t rest[25];
};
static_assert(sizeof(Info) == sizeof(Tracee::info));

struct Vector {
    void* base;
    std::uint64_t length;
};

inline long request(long what, const Tracee& tracee, std::uint64_t address, const void* data) {
    return call(SYS_ptrace, what, tracee.tid, address, data);
}
inline long request(long what, const Tracee& tracee, std::uint64_t address, std::uint64_t data) {
    return call(SYS_ptrace, what, tracee.tid, address, data);
}

inline long read_registers(const Tracee& tracee, std::uint64_t* registers) {
    const Vector part = {registers, sizeof Tracee::registers};
    return request(PTRACE_GETREGSET, tracee, registers_set, &part);
}

inline long write_registers(const Tracee& tracee, std::uint64_t* registers) {
    const Vector part = {registers, sizeof Tracee::registers};
    return request(PTRACE_SETREGSET, tracee, registers_set, &part);
}

inline void write_mask(const Tracee& tracee, std::uint64_t mask) {
    request(PTRACE_SETSIGMASK, tracee, sizeof mask, &mask);
}

// Waits until it stands in a stop, and leaves this to be told. False: it has ended.
inline bool await_stop(const Tracee& tracee) {
    Info info = {};
    long done = 0;
    do
        done =
            call(SYS_waitid, one_process, tracee.tid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL, nullptr);
    while (done == -4);
    constexpr std::int32_t trapped = 4, stopped = 5;  // CLD_*
    return done == 0 && (info.code == trapped || info.code == stopped);
}

// Whether there is something that wait(2) would tell of it.
inline bool has_news(const Tracee& tracee) {
    Info info = {};
    call(SYS_waitid, one_process, tracee.tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL,
         nullptr);
    return info.pid != 0;
}

inline void take_news(const Tracee& tracee) {
    call(SYS_wait4, tracee.tid, nullptr, WNOHANG | __WALL, nullptr);
}

inline bool is_pending(std::uint32_t signal) {
    std::uint64_t set = 0;
    call(SYS_rt_sigpending, &set, sizeof set);
    return (set >> (signal - 1) & 1) != 0;
}

// The kernel tells a tracer of each stop by a SIGCHLD, and of those that are made here the program isn't to
// hear. It is a signal of which one waits at most: if somebody has ended meanwhile, or stands in a stop that
// the program has asked for and is yet to be told of, it stands for him as well.
class Unheard {
  public:
    Unheard() : pending_(is_pending(child)) {}
    Unheard(const Unheard&) = delete;
    Unheard& operator=(const Unheard&) = delete;
    ~Unheard() {
        if (pending_ || !is_pending(child)) return;
        constexpr long any = 0;  // P_ALL
        Info info = {};
        call(SYS_waitid, any, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL, nullptr);
        if (info.pid != 0) return;
        const std::uint64_t set = 1ULL << (child - 1);
        const std::int64_t no_time[2] = {0, 0};
        call(SYS_rt_sigtimedwait, &set, nullptr, no_time, sizeof set);
    }

  private:
    bool pending_;
};

inline void copy_registers(std::uint64_t* to, const std::uint64_t* from) {
    for (unsigned i = 0; i < sizeof Tracee::registers / sizeof *to; ++i)
        *static_cast<volatile std::uint64_t*>(to + i) = from[i];
}

// Where it sleeps until somebody takes it. The process's library lies elsewhere than ours.
inline void park(const Tracee& tracee) {
    std::uint64_t registers[sizeof Tracee::registers / 8];
    copy_registers(registers, tracee.registers);
    registers[rip] = tracee.park;
    registers[rax] = 0;
    registers[eflags] = plain_flags;
    registers[orig_rax] = static_cast<std::uint64_t>(no_call);
    write_mask(tracee, all_signals);
    write_registers(tracee, registers);
}

// A call that was cut short by us, and would go on had it not been.
inline bool is_cut_short(std::int64_t result) {
    return result == -4 || (result <= -512 && result >= -516 && result != -515);
}

// Whether the stop before a call is that of a seccomp filter which asks the tracer (SECCOMP_RET_TRACE).
inline bool asks_tracer(const Tracee& tracee) {
    const Info& info = *reinterpret_cast<const Info*>(tracee.info);
    return info.signal == static_cast<std::int32_t>(trap) &&
           info.code == static_cast<std::int32_t>(trap | PTRACE_EVENT_SECCOMP << 8);
}

// Of a thread that stands still: false: in a stop that can't be made again.
inline bool find_stop(Tracee& tracee, bool made) {
    Info& info = *reinterpret_cast<Info*>(tracee.info);
    if (request(PTRACE_GETSIGINFO, tracee, 0, &info) != 0) return false;  // stopped by job control
    const std::uint32_t code = static_cast<std::uint32_t>(info.code);
    if (code >> 8 == PTRACE_EVENT_STOP) {
        tracee.stop = made ? TraceStop::running : TraceStop::interrupted;
        return (code & 0xff) == trap;
    }
    const bool by_kernel = info.signal == static_cast<std::int32_t>(trap);
    if (asks_tracer(tracee)) {
        tracee.stop = TraceStop::call_entry;
        return static_cast<std::int64_t>(tracee.registers[orig_rax]) >= 0;
    }
    if (by_kernel && (code & 0xff) == trap && code >> 8 != 0 && code >> 8 < 16) return false;
    std::uint64_t message = 0;
    if (by_kernel && (code == (trap | 0x80) || (code == trap && tracee.resume == PTRACE_SYSCALL)))
        request(PTRACE_GETEVENTMSG, tracee, 0, &message);
    if (message == PTRACE_EVENTMSG_SYSCALL_ENTRY) {
        tracee.stop = TraceStop::call_entry;
    } else if (message == PTRACE_EVENTMSG_SYSCALL_EXIT) {
        const bool cut = made && static_cast<std::int64_t>(tracee.registers[orig_rax]) >= 0 &&
                         is_cut_short(static_cast<std::int64_t>(tracee.registers[rax]));
        tracee.stop = cut ? TraceStop::in_call : TraceStop::call_exit;
    } else {
        const bool ours = made && tracee.seized == 0 && info.signal == static_cast<std::int32_t>(stop) &&
                          info.code == sent_by_tgkill && info.pid == call(SYS_getpid);
        tracee.stop = ours ? TraceStop::running : TraceStop::signal;
    }
    return true;
}

// A SIGSTOP of the tracer's that it hasn't come to yet: a debugger that has sent it and was told of a
// breakpoint instead remembers that it is still to come.
inline bool has_pending_stop(const Tracee& tracee) {
    for (std::uint32_t shared = 0; shared < 2; ++shared)
        for (std::uint64_t at = 0;; ++at) {
            Info info = {};
            const struct {
                std::uint64_t offset;
                std::uint32_t flags;
                std::int32_t count;
            } which = {at, shared, 1};  // struct ptrace_peeksiginfo_args
            if (request(PTRACE_PEEKSIGINFO, tracee, reinterpret_cast<std::uint64_t>(&which), &info) != 1)
                break;
            if (info.signal == static_cast<std::int32_t>(stop)) return true;
        }
    return false;
}

// 0; -EAGAIN: it is in a stop that the tracer itself has to end, or has ended.
inline long let_go(Tracee& tracee) {
    const Unheard unheard;
    // Interruptions are one where the tracer has just asked for one as well, and this is the one that he
    // waits for.
    const bool asked = tracee.stop == TraceStop::interrupted;
    tracee.held = 0;
    bool made = false;
    if (read_registers(tracee, tracee.registers) != 0) {
        if (has_news(tracee)) {
            if (read_registers(tracee, tracee.registers) != 0) return again;  // it has ended
        } else {
            made = !asked || tracee.seized == 0;
            const long done = tracee.seized != 0 ? request(PTRACE_INTERRUPT, tracee, 0, nullptr)
                                                 : call(SYS_tgkill, tracee.pid, tracee.tid, stop);
            if (done != 0 || !await_stop(tracee) || read_registers(tracee, tracee.registers) != 0)
                return again;
        }
    }
    tracee.told = has_news(tracee) ? 0 : 1;
    request(PTRACE_GETSIGMASK, tracee, sizeof tracee.mask, &tracee.mask);
    if (!find_stop(tracee, made)) return again;
    constexpr std::uint64_t debug_registers = 848,
                            size = sizeof tracee.debug[0];  // offsetof(struct user, u_debugreg)
    for (unsigned i = 0; i < 8; ++i)
        if (i != 4 && i != 5) request(PTRACE_PEEKUSR, tracee, debug_registers + i * size, &tracee.debug[i]);
    park(tracee);
    // Left pending, a SIGSTOP would stop the whole process as soon as nobody traces it. It waits as well
    // where the thread came to another stop before the signal by which it was to be stopped here.
    bool stop_waits = false;
    if (has_pending_stop(tracee)) {
        stop_waits = !made;
        request(PTRACE_CONT, tracee, 0, nullptr);
        if (!await_stop(tracee)) return again;
        if (tracee.stop == TraceStop::call_entry || tracee.stop == TraceStop::in_call) park(tracee);
    }
    tracee.held = stop_waits ? 2 : 1;
    return request(PTRACE_DETACH, tracee, 0, nullptr);
}

// Over a system call: to the stop before it, or behind it.
inline bool to_call(const Tracee& tracee) {
    return request(PTRACE_SYSCALL, tracee, 0, nullptr) == 0 && await_stop(tracee);
}

// To the stop of the filter that asks about a call; from another call's, or before any.
inline bool to_filter(const Tracee& tracee) {
    return request(PTRACE_CONT, tracee, 0, nullptr) == 0 && await_stop(tracee);
}

// Where the call is about to be made once more.
inline void rewind_call(Tracee& tracee) {
    std::uint64_t registers[sizeof Tracee::registers / 8];
    copy_registers(registers, tracee.registers);
    registers[rip] -= 2;
    registers[rax] = registers[orig_rax];
    registers[orig_rax] = static_cast<std::uint64_t>(no_call);
    write_registers(tracee, registers);
}

inline void send_again(Tracee& tracee) {
    const Info& info = *reinterpret_cast<const Info*>(tracee.info);
    const auto signal = static_cast<std::uint32_t>(info.signal);
    write_registers(tracee, tracee.registers);
    if (tracee.seized != 0 ||
        signal != stop) {  // an attached one stands in the delivery of a SIGSTOP already
        write_mask(tracee, ~(1ULL << (signal - 1)));
        call(SYS_tgkill, tracee.pid, tracee.tid, signal);
        request(PTRACE_CONT, tracee, 0, nullptr);
        if (!await_stop(tracee)) return;
    }
    request(PTRACE_SETSIGINFO, tracee, 0, &info);
    write_mask(tracee, tracee.mask);
}

// The stop behind a call that isn't made.
inline void end_call(Tracee& tracee) {
    park(tracee);
    if (!to_call(tracee)) return;
    std::uint64_t registers[sizeof Tracee::registers / 8];
    if (read_registers(tracee, registers) != 0) return;
    registers[orig_rax] = static_cast<std::uint64_t>(no_call);
    write_registers(tracee, registers);
    if (!to_call(tracee)) return;
    write_registers(tracee, tracee.registers);
    write_mask(tracee, tracee.mask);
}

inline void make_stop(Tracee& tracee) {
    switch (tracee.stop) {
        case TraceStop::running:
        case TraceStop::interrupted:
            write_registers(tracee, tracee.registers);
            write_mask(tracee, tracee.mask);
            break;
        case TraceStop::in_call:
        case TraceStop::call_entry:
            rewind_call(tracee);
            if (!(asks_tracer(tracee) ? to_filter(tracee) : to_call(tracee))) return;
            if (tracee.stop == TraceStop::call_entry) write_registers(tracee, tracee.registers);
            write_mask(tracee, tracee.mask);
            break;
        case TraceStop::signal:
            send_again(tracee);
            break;
        case TraceStop::call_exit:
            end_call(tracee);
            break;
    }
}

// Whoever traces it still is about to let go: a capture that has ended is not gone at once.
inline bool attach(const Tracee& tracee) {
    constexpr int most = 100'000;
    for (int tries = 0; tries < most; ++tries) {
        const long done = tracee.seized != 0 ? request(PTRACE_SEIZE, tracee, 0, std::uint64_t{tracee.options})
                                             : request(PTRACE_ATTACH, tracee, 0, nullptr);
        if (done == 0) return true;
        if (done != not_permitted) return false;
        call(SYS_sched_yield);
    }
    return false;
}

inline void take(Tracee& tracee) {
    if (tracee.held == 0) return;
    const bool stop_waits = tracee.held == 2;
    tracee.held = 0;
    if (!attach(tracee)) return;
    if (tracee.seized != 0) request(PTRACE_INTERRUPT, tracee, 0, nullptr);
    if (!await_stop(tracee)) return;
    if (tracee.seized == 0) request(PTRACE_SETOPTIONS, tracee, 0, std::uint64_t{tracee.options});
    constexpr std::uint64_t debug_registers = 848, size = sizeof tracee.debug[0];
    for (unsigned i = 0; i < 8; ++i)
        if (i != 4 && i != 5 && tracee.debug[7] != 0)
            request(PTRACE_POKEUSR, tracee, debug_registers + i * size, tracee.debug[i]);
    make_stop(tracee);
    if (stop_waits) call(SYS_tgkill, tracee.pid, tracee.tid, stop);
    const bool runs = tracee.stop == TraceStop::running || tracee.stop == TraceStop::in_call;
    if (runs)
        request(tracee.resume != 0 ? tracee.resume : PTRACE_CONT, tracee, 0, nullptr);
    else if (tracee.told != 0)
        take_news(tracee);
}

inline long take_all(Door* door, std::uint32_t count) {
    bool any = false;  // if not, no call is made that a seccomp filter might forbid
    for (std::uint32_t i = 0; i < count && i < max_tracees; ++i) any = any || door->tracees[i].held != 0;
    if (!any) return 0;
    const Unheard unheard;
    for (std::uint32_t i = 0; i < count && i < max_tracees; ++i) take(door->tracees[i]);
    return 0;
}

}  // namespace tracing
}  // namespace cairn
