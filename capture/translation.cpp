#include "capture/translation.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "common/agent.h"
#include "common/ipc_arguments.h"
#include "common/pid_arguments.h"
#include "common/proc.h"

namespace cairn::capture {
namespace {

// linux/errno.h, not for user space: make the call again, whatever else happens.
constexpr std::int64_t restart_no_intr = -513, first_restart_code = -516, last_restart_code = -512;
constexpr int most_steps = 10'000;  // a wrapper is some hundred instructions, or a walk through a full table
// bytes of stack that libc may use between a wrapper and its system call
constexpr std::uint32_t deepest_call = 4096;

struct Code {
    std::uint64_t start = 0, end = 0;
    [[nodiscard]] bool holds(std::uint64_t address) const { return address >= start && address < end; }
};

// What a wrapper looks up in the table of hosts that have moved (hijack/moved.h), which a restart fills anew.
bool tells_address(unsigned long long call) {
    constexpr std::array calls = {SYS_recvfrom, SYS_recvmsg,     SYS_recvmmsg,   SYS_accept,
                                  SYS_accept4,  SYS_getsockname, SYS_getpeername};
    return std::ranges::find(calls, static_cast<long>(call)) != calls.end();
}

bool receives(unsigned long long call) {
    return call == SYS_recvfrom || call == SYS_recvmsg || call == SYS_recvmmsg;
}

Code library_code(const StoppedProcess& process) {
    const auto code = ptrace::read_object<std::array<std::uint64_t, 2>>(
        process.living, process.door + offsetof(Door, code_begin));
    return code ? Code{(*code)[0], (*code)[1]} : Code{};
}

class Thread {
  public:
    Thread(const StoppedProcess& process, StoppedThread& thread, const Code& code)
        : pid_(process.living), timing_tls_(process.timing_tls), thread_(thread), code_(code) {}

    void leave() {
        if (asleep() || !inside() || ignores_traps()) return;
        // The kernel would put SIGTRAP's action to its default if the thread blocked it.
        (void)ptrace::set_mask(thread_.tid, thread_.mask & ~(std::uint64_t{1} << (SIGTRAP - 1)));
        bool stepped = false;
        for (int steps = 0; steps < most_steps && inside() && !at_call(); ++steps) {
            if (!step()) break;
            stepped = true;
        }
        if (stepped) stand_as_before();
        (void)ptrace::set_mask(thread_.tid, thread_.mask);
    }

  private:
    // In the library, or in what a wrapper of its has called.
    [[nodiscard]] bool inside() const {
        if (code_.holds(thread_.registers.rip)) return true;
        if (timing_tls_ == 0) return false;
        const auto note = ptrace::read_object<TimingNote>(
            pid_, thread_.registers.fs_base + static_cast<std::uint64_t>(timing_tls_));
        return note && note->call_frame != 0 &&
               note->call_frame - static_cast<std::uint32_t>(thread_.registers.rsp) < deepest_call;
    }
    // The kernel would put its action to the default.
    [[nodiscard]] bool ignores_traps() const {
        auto status = proc::status(pid_, pid_);
        if (!status) return true;
        return (std::strtoull((*status)["SigIgn"].c_str(), nullptr, 16) >> (SIGTRAP - 1) & 1) != 0;
    }
    // In a system call that is to be made again, or that settle() has to judge (capture/settle.cpp).
    [[nodiscard]] bool asleep() const {
        const auto& registers = thread_.registers;
        if (static_cast<std::int64_t>(registers.orig_rax) < 0) return false;
        const auto answer = static_cast<std::int64_t>(registers.rax);
        if (answer >= first_restart_code && answer <= last_restart_code) return true;
        if (speaks_of_ipc(registers.orig_rax)) return answer == -EINTR;
        if (speaks_of_ids(registers.orig_rax) || asks_about_itself(registers.orig_rax)) return false;
        // One that is to wait for all of it has an end to come, which settle() looks after.
        const auto flags = registers.orig_rax == SYS_recvmsg ? registers.rdx : registers.r10;
        const bool whole = receives(registers.orig_rax) && (flags & MSG_WAITALL) != 0;
        return !tells_address(registers.orig_rax) || whole || answer == -EINTR;
    }
    // At the instruction `syscall`.
    bool at_call() {
        auto& registers = thread_.registers;
        const auto code = ptrace::read_object<std::array<std::uint8_t, 2>>(pid_, registers.rip);
        if (!code || (*code)[0] != 0x0f || (*code)[1] != 0x05) return false;
        // libc's sigqueue(3) and pthread_kill(3) ask with the translated id in another register already.
        if (asks_about_itself(registers.rax)) return false;
        if (has_address()) return !send();
        if (!takes_ids(registers.rax) && ipc_kind_of_call(registers.rax) == IpcKind{}) return true;
        registers.orig_rax = registers.rax;
        registers.rax = static_cast<std::uint64_t>(restart_no_intr);
        registers.rip += 2;
        (void)ptrace::set_registers(thread_.tid, registers);
        return true;
    }
    // At a call that sends a message to an address, which after a restart may be somebody else's.
    [[nodiscard]] bool has_address() const {
        const auto& registers = thread_.registers;
        if (registers.rax == SYS_sendto) return registers.r8 != 0;
        if (registers.rax != SYS_sendmsg) return false;
        const auto message = ptrace::read_object<msghdr>(pid_, registers.rsi);
        return message && message->msg_name != nullptr;
    }
    // It is sent before anybody's queue is looked at on this host; on another one it may come too late for
    // that, and be lost, as datagrams may be. False: it would have to wait.
    bool send() {
        const auto before = thread_.registers;
        auto& flags = before.rax == SYS_sendto ? thread_.registers.r10 : thread_.registers.rdx;
        flags |= MSG_DONTWAIT;
        if (!ptrace::set_registers(thread_.tid, thread_.registers)) return false;
        const bool stepped = step();
        const auto answer = static_cast<std::int64_t>(thread_.registers.rax);
        if (!stepped || answer == -EAGAIN || thread_.registers.rip == before.rip) {
            thread_.registers = before;
            (void)ptrace::set_registers(thread_.tid, before);
            return false;
        }
        (before.rax == SYS_sendto ? thread_.registers.r10 : thread_.registers.rdx) =
            before.rax == SYS_sendto ? before.r10 : before.rdx;
        (void)ptrace::set_registers(thread_.tid, thread_.registers);
        return true;
    }
    bool step() {
        if (!ptrace::step(thread_.tid, signal_)) return false;
        int status = 0;
        if (::waitpid(thread_.tid, &status, __WALL) != thread_.tid || !WIFSTOPPED(status)) return false;
        // A signal of the program's own: it is delivered with the next step.
        signal_ = status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0;
        return read();
    }
    bool read() {
        auto registers = ptrace::registers(thread_.tid);
        if (registers) thread_.registers = *registers;
        return registers.has_value();
    }
    // From the trap of a step to the stop that everybody else is in, without running anything between.
    void stand_as_before() {
        if (!ptrace::interrupt(thread_.tid) || !ptrace::resume(thread_.tid, signal_)) return;
        int status = 0;
        while (::waitpid(thread_.tid, &status, __WALL) == thread_.tid && WIFSTOPPED(status) &&
               status >> 16 != ptrace::event_stop) {
            const int signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
            if (!ptrace::interrupt(thread_.tid) || !ptrace::resume(thread_.tid, signal)) return;
        }
        (void)read();
    }

    pid_t pid_;
    std::int64_t timing_tls_;
    StoppedThread& thread_;
    const Code& code_;
    int signal_ = 0;
};

}  // namespace

void leave_translations(StoppedProcess& process) {
    if (process.job_stopped) return;  // by job control it can stop in no wrapper but at a call
    const Code code = library_code(process);
    for (auto& thread : process.threads)
        if (!thread.leader_dead) Thread(process, thread, code).leave();
}

}  // namespace cairn::capture
