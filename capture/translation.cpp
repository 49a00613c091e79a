#include "capture/translation.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <utility>

#include "capture/collect/filters.h"
#include "common/agent.h"
#include "common/cpu_clock.h"
#include "common/ipc_arguments.h"
#include "common/pid_arguments.h"
#include "common/ptrace/restart_code.h"

namespace cairn::capture {
namespace {

using Clock = std::chrono::steady_clock;
// A wrapper is some hundred instructions, or a walk through a full table; others may hold what it waits for.
// Of the thread's own CPU time: on a loaded machine it stands in the queue for longer than its way takes, and
// one that isn't led to its end leaves a promise without its note. Of real time only what nothing explains.
constexpr std::chrono::microseconds shortest_run{20}, longest_way{50'000};
constexpr std::chrono::seconds longest_wait{5};
// bytes of stack that libc may use between a wrapper and its system call
constexpr std::uint32_t deepest_call = 4096;

// What a wrapper looks up in the table of hosts that have moved (hijack/moved.h), which a restart fills anew.
bool tells_address(unsigned long long call) {
    constexpr std::array calls = {SYS_recvfrom, SYS_recvmsg,     SYS_recvmmsg,   SYS_accept,
                                  SYS_accept4,  SYS_getsockname, SYS_getpeername};
    return std::ranges::find(calls, static_cast<long>(call)) != calls.end();
}

bool receives(unsigned long long call) {
    return call == SYS_recvfrom || call == SYS_recvmsg || call == SYS_recvmmsg;
}

ProgramRange library_code(const StoppedProcess& process) {
    const auto code = ptrace::read_object<std::array<ProgramAddress, 2>>(
        process.living, process.door + offsetof(Door, code_begin));
    return code ? ProgramRange{(*code)[0], (*code)[1]} : ProgramRange{};
}

// The CPU time of a process of which one thread runs: that thread's (another process's threads have no clock
// for us: posix_cpu_clock_get, kernel/time/posix-cpu-timers.c).
class CpuTime {
  public:
    explicit CpuTime(KernelId process) : clock_(clock_of_task(counts_running, process)) {}
    [[nodiscard]] std::chrono::nanoseconds now() const {
        timespec time{};
        if (::clock_gettime(clock_, &time) != 0) ::clock_gettime(CLOCK_MONOTONIC, &time);
        return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    }

  private:
    static constexpr std::int32_t counts_running = 2;  // CPUCLOCK_SCHED, linux/posix-timers.h
    std::int32_t clock_;
};

class Thread {
  public:
    Thread(const StoppedProcess& process, StoppedThread& thread, const ProgramRange& code)
        : pid_(process.living),
          timing_tls_(process.timing_tls),
          thread_(thread),
          code_(code),
          cpu_time_(KernelId(process.pid)) {}

    void leave() {
        if (asleep() || !inside()) return;
        if (const auto number = number_for_none(thread_.tid))
            no_call_ = *number;
        else
            return;
        const auto until = cpu_time_.now() + longest_way;
        for (auto run_for = shortest_run; inside() && !at_call() && !is_over(until); run_for *= 2)
            if (!go_on(run_for)) break;
        if (!standing_) (void)stand_as_before();
    }

  private:
    // In the library, or in what a wrapper of its has called.
    [[nodiscard]] bool inside() const {
        if (code_.has(ProgramAddress(thread_.registers.rip))) return true;
        if (timing_tls_ == 0) return false;
        const auto note = ptrace::read_object<TimingNote>(
            pid_, ProgramAddress(thread_.registers.fs_base) + static_cast<std::uint64_t>(timing_tls_));
        return note && note->call_frame != 0 &&
               note->call_frame - static_cast<std::uint32_t>(thread_.registers.rsp) < deepest_call;
    }
    // In a system call that is to be made again, or that hide_stop() has to judge (capture/hide_stop.cpp).
    [[nodiscard]] bool asleep() const {
        const auto& registers = thread_.registers;
        if (static_cast<std::int64_t>(registers.orig_rax) < 0) return false;
        const auto answer = static_cast<std::int64_t>(registers.rax);
        if (to_be_made_again(registers)) return true;
        if (speaks_of_ipc(registers.orig_rax)) return answer == -EINTR;
        if (speaks_of_ids(registers.orig_rax) || asks_about_itself(registers.orig_rax)) return false;
        // One that is to wait for all of it has an end to come, which hide_stop() looks after.
        const auto flags = registers.orig_rax == SYS_recvmsg ? registers.rdx : registers.r10;
        const bool whole = receives(registers.orig_rax) && (flags & MSG_WAITALL) != 0;
        return !tells_address(registers.orig_rax) || whole || answer == -EINTR;
    }
    // At the instruction `syscall`.
    bool at_call() {
        auto& registers = thread_.registers;
        const auto code =
            ptrace::read_object<std::array<std::uint8_t, 2>>(pid_, ProgramAddress(registers.rip));
        if (!code || (*code)[0] != 0x0f || (*code)[1] != 0x05) return false;
        // libc's sigqueue(3) and pthread_kill(3) ask with the translated id in another register already.
        if (asks_about_itself(registers.rax)) return false;
        if (has_address()) return !send();
        if (!takes_ids(registers.rax) && ipc_kind_of_call(registers.rax) == IpcKind{}) return true;
        registers.orig_rax = registers.rax;
        say(registers, RestartCode::always);
        registers.rip += 2;
        (void)ptrace::set_registers(thread_.tid, registers);
        return true;
    }
    // At a call that sends a message to an address, which after a restart may be somebody else's.
    [[nodiscard]] bool has_address() const {
        const auto& registers = thread_.registers;
        if (registers.rax == SYS_sendto) return registers.r8 != 0;
        if (registers.rax != SYS_sendmsg) return false;
        const auto message = ptrace::read_object<msghdr>(pid_, ProgramAddress(registers.rsi));
        return message && message->msg_name != nullptr;
    }
    // It is sent before anybody's queue is looked at on this host; on another one it may come too late for
    // that, and be lost, as datagrams may be. False: it would have to wait.
    bool send() {
        const auto before = thread_.registers;
        auto& flags = before.rax == SYS_sendto ? thread_.registers.r10 : thread_.registers.rdx;
        flags |= MSG_DONTWAIT;
        if (!ptrace::set_registers(thread_.tid, thread_.registers)) return false;
        const bool made = make_call();
        const auto answer = static_cast<std::int64_t>(thread_.registers.rax);
        if (!made || answer == -EAGAIN || thread_.registers.rip == before.rip) {
            thread_.registers = before;
            (void)ptrace::set_registers(thread_.tid, before);
            return false;
        }
        (before.rax == SYS_sendto ? thread_.registers.r10 : thread_.registers.rdx) =
            before.rax == SYS_sendto ? before.r10 : before.rdx;
        (void)ptrace::set_registers(thread_.tid, thread_.registers);
        return true;
    }
    // It has run until then by its CPU time, or has had all the time that we give it.
    [[nodiscard]] bool is_over(std::chrono::nanoseconds end) const {
        return cpu_time_.now() >= end || Clock::now() >= wait_until_;
    }
    enum class Stop { call, event, signal, gone };
    // Lets the thread run up to the next boundary of a system call, to a signal of the program's own (it is
    // delivered with the next run), or to a stop that it is asked for when it has run for this time.
    Stop run(std::chrono::microseconds most) {
        const auto interrupt_at = cpu_time_.now() + most;
        bool interrupted = false;
        standing_ = false;
        if (!ptrace::resume_to_call(thread_.tid, std::exchange(signal_, 0))) return Stop::gone;
        for (;;) {
            int status = 0;
            const pid_t got = ::waitpid(thread_.tid, &status, __WALL | WNOHANG);
            if (got == thread_.tid && WIFSTOPPED(status)) return stopped(status);
            if (got != 0 && !(got < 0 && errno == EINTR)) return Stop::gone;
            if (!interrupted && is_over(interrupt_at)) {
                if (!ptrace::interrupt(thread_.tid)) return Stop::gone;
                interrupted = true;
            }
            ::sched_yield();
        }
    }
    Stop stopped(int status) {
        standing_ = status >> 16 == ptrace::event_stop;
        if (standing_) return Stop::event;
        if (WSTOPSIG(status) == ptrace::call_stop) return Stop::call;
        signal_ = status >> 16 == 0 ? WSTOPSIG(status) : 0;
        return Stop::signal;
    }
    // A way on in the program: to a system call, which isn't made, or for a while.
    bool go_on(std::chrono::microseconds most) {
        const auto stop = run(most);
        if (stop == Stop::gone || !read()) return false;
        if (stop != Stop::call) return true;
        if (asks_about_itself(thread_.registers.orig_rax)) return run(longest_way) == Stop::call && read();
        return back_from_call() && stand_as_before();
    }
    // At the instruction `syscall`: the call is made, unless a signal comes first.
    bool make_call() { return run(longest_way) == Stop::call && run(longest_way) == Stop::call && read(); }
    // From the entry of a call back to its instruction. Without a number the kernel makes no call and leaves
    // rax alone (do_syscall_64, arch/x86/entry/common.c), so that this is one step, whatever becomes of us.
    // With a seccomp filter it takes two: a capture that dies between them leaves a wrong number in rax.
    bool back_from_call() {
        auto& registers = thread_.registers;
        registers.rip -= 2;
        registers.rax = registers.orig_rax;
        registers.orig_rax = static_cast<std::uint64_t>(no_call_);
        if (!ptrace::set_registers(thread_.tid, registers)) return false;
        if (no_call_ < 0) return true;
        if (run(longest_way) != Stop::call) return false;
        registers.orig_rax = static_cast<std::uint64_t>(-1);
        return ptrace::set_registers(thread_.tid, registers).has_value();
    }
    bool read() {
        auto registers = ptrace::registers(thread_.tid);
        if (registers) thread_.registers = *registers;
        return registers.has_value();
    }
    // To the stop that everybody else is in, without running anything of the program's between. Any trap
    // takes back a pending interrupt, so it is asked for again.
    bool stand_as_before() {
        while (!standing_) {
            if (!ptrace::interrupt(thread_.tid) || !ptrace::resume(thread_.tid, std::exchange(signal_, 0)))
                return false;
            int status = 0;
            if (::waitpid(thread_.tid, &status, __WALL) != thread_.tid || !WIFSTOPPED(status)) return false;
            (void)stopped(status);
        }
        return read();
    }

    pid_t pid_;
    std::int64_t timing_tls_;
    StoppedThread& thread_;
    const ProgramRange& code_;
    CpuTime cpu_time_;
    Clock::time_point wait_until_ = Clock::now() + longest_wait;
    long no_call_ = -1;
    int signal_ = 0;        // to be delivered when it runs again
    bool standing_ = true;  // in the stop that everybody is in
};

}  // namespace

void leave_translations(StoppedProcess& process) {
    if (process.job_stopped) return;  // by job control it can stop in no wrapper but at a call
    const ProgramRange code = library_code(process);
    for (auto& thread : process.threads)
        if (!thread.leader_dead && !thread.parked) Thread(process, thread, code).leave();
}

}  // namespace cairn::capture
