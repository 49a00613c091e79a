#include "restart/rebuild/tracee.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace cairn::restart {
namespace {

void await_child(int milliseconds) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const timespec slice = {milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
    ::sigtimedwait(&set, nullptr, &slice);
}

}  // namespace

Happening next_event(const std::map<pid_t, pid_t>& process_of, int milliseconds) {
    for (bool waited = false;;) {
        int status = 0;
        const pid_t tid = ::waitpid(-1, &status, __WALL | WNOHANG);
        if (tid <= 0) {
            if (waited) return {};
            waited = true;
            await_child(milliseconds);
            continue;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) return {tid, Event::ended, status};
        if (!WIFSTOPPED(status)) continue;
        const int event = status >> 16;
        if (event == PTRACE_EVENT_EXEC) return {tid, Event::execed, 0};
        if (event == PTRACE_EVENT_CLONE) {
            (void)ptrace::resume(tid, 0);
            continue;
        }
        if (event == ptrace::event_stop) {
            // a new thread's first stop, or a stop that was asked for
            if (process_of.contains(tid)) return {tid, Event::stopped, WSTOPSIG(status)};
            (void)ptrace::resume(tid, 0);
            continue;
        }
        if (WSTOPSIG(status) == SIGTRAP) return {tid, Event::trapped, 0};
        return {tid, Event::crashed, WSTOPSIG(status)};
    }
}

Result<ProgramAddress> find_syscall(pid_t pid, ProgramAddress vdso, std::uint64_t length) {
    std::vector<std::byte> text(length);
    CHECK_OK(ptrace::read_memory(pid, vdso, text));
    constexpr std::array instruction = {std::byte{0x0f}, std::byte{0x05}};
    const auto found = std::ranges::search(text, instruction);
    if (found.empty()) return fail("no system call instruction in the vdso of {}", pid);
    return vdso + static_cast<std::uint64_t>(found.begin() - text.begin());
}

Result<std::int64_t> remote_call(pid_t tid, ProgramAddress syscall_at, long number,
                                 std::span<const std::uint64_t> arguments) {
    auto registers = ptrace::registers(tid);
    if (!registers) return std::unexpected(std::move(registers.error()));
    std::array<std::uint64_t, 6> given = {};
    std::ranges::copy(arguments, given.begin());
    registers->rip = syscall_at.value();
    registers->rax = static_cast<std::uint64_t>(number);
    registers->orig_rax = static_cast<std::uint64_t>(-1);
    registers->rdi = given[0];
    registers->rsi = given[1];
    registers->rdx = given[2];
    registers->r10 = given[3];
    registers->r8 = given[4];
    registers->r9 = given[5];
    CHECK_OK(ptrace::set_registers(tid, *registers));
    // A stop before the call and one behind it, and perhaps one for a trap that was on its way.
    constexpr int most_stops = 20;
    for (int stops = 0; stops < most_stops; ++stops) {
        if (::ptrace(PTRACE_SYSCALL, tid, nullptr, nullptr) != 0)
            return fail_errno("ptrace: system call {} of {}", number, tid);
        int status = 0;
        if (::waitpid(tid, &status, __WALL) != tid) return fail_errno("waiting for {}", tid);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP || status >> 16 != 0)
            return fail("process {} died in system call {} of its restart (status {:#x})", tid, number,
                        status);
        registers = ptrace::registers(tid);
        if (!registers) return std::unexpected(std::move(registers.error()));
        const bool called =
            registers->rip != syscall_at.value() && static_cast<long>(registers->orig_rax) == number;
        const bool entering = static_cast<std::int64_t>(registers->rax) == -ENOSYS;
        if (called && !entering) return static_cast<std::int64_t>(registers->rax);
    }
    return fail("process {}: system call {} of its restart doesn't end", tid, number);
}

}  // namespace cairn::restart
