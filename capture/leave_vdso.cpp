#include "capture/leave_vdso.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "common/vdso.h"

namespace cairn::capture {
namespace {

constexpr std::uint64_t page = 4096;
// The longest way known is getrandom()'s, some thousand instructions for a full buffer.
constexpr int most_steps = 100'000;

// Where the process has its vdso, if `address` lies in it. /proc/PID/maps would tell, too, but takes a
// hundred times as long, and nearly no thread is there: so it is looked whether what lies around the address
// begins as the vdso does.
std::optional<ProgramAddress> vdso_around(pid_t pid, ProgramAddress address) {
    const auto own = running_vdso();
    std::array<std::byte, 64> head{};  // the ELF header: no other object has the same
    if (own.size() < head.size()) return {};
    for (std::uint64_t before = 0; before < own.size() && before <= address.value(); before += page) {
        const auto start = address - address % page - before;
        if (!ptrace::read_memory(pid, start, head)) return {};
        if (std::ranges::equal(head, own.first(head.size()))) return start;
    }
    return {};
}

// A step ends in a SIGTRAP that the kernel forces on the thread: where that signal is ignored or blocked its
// action would be SIG_DFL afterwards (force_sig_info_to_task()), and one of the program's own that waits
// would be taken for ours.
bool may_step(const StoppedProcess& process, const StoppedThread& thread) {
    auto status = proc::status(process.pid, thread.tid);
    if (!status) return false;
    constexpr std::uint64_t trap = std::uint64_t{1} << (SIGTRAP - 1);
    return std::ranges::none_of(std::array{"SigIgn", "SigPnd", "ShdPnd"}, [&](const char* of) {
        return (proc::hexadecimal((*status)[of]) & trap) != 0;
    });
}

Error disturbed(const StoppedProcess& process, const StoppedThread& thread, int status) {
    // SIGSTOP, which nobody can block: it is on its way again.
    if (WIFSTOPPED(status) && status >> 16 == 0)
        ::syscall(SYS_tgkill, process.pid, thread.tid, WSTOPSIG(status));
    Error error{fmt::format("{}: thread {} was stopped or ended while the checkpoint began; try again",
                            proc::label(process.pid), thread.tid)};
    error.passing = true;
    return error;
}

Result<> step_out(const StoppedProcess& process, StoppedThread& thread, ProgramAddress start) {
    for (int steps = 0;
         steps < most_steps && ProgramAddress(thread.registers.rip) - start < running_vdso().size();
         ++steps) {
        CHECK_OK(ptrace::step(thread.tid));
        int status = 0;
        if (::waitpid(thread.tid, &status, __WALL) != thread.tid)
            return fail_errno("waiting for thread {}", thread.tid);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP || status >> 16 != 0)
            return std::unexpected(disturbed(process, thread, status));
        thread.registers = TRY(ptrace::registers(thread.tid));
    }
    return {};
}

// No signal is delivered on the way.
Result<> lead_out(const StoppedProcess& process, StoppedThread& thread, ProgramAddress start) {
    if (!may_step(process, thread)) return {};
    constexpr std::uint64_t all_but_trap = ~(std::uint64_t{1} << (SIGTRAP - 1));
    CHECK_OK(ptrace::set_mask(thread.tid, all_but_trap));
    auto done = step_out(process, thread, start);
    auto back = ptrace::set_mask(thread.tid, thread.mask);
    return done ? back : done;
}

}  // namespace

Result<> leave_vdso(StoppedProcess& process) {
    if (process.job_stopped) return {};
    for (auto& thread : process.threads) {
        if (thread.leader_dead) continue;
        const auto start = vdso_around(process.living, ProgramAddress(thread.registers.rip));
        if (start) CHECK_OK(lead_out(process, thread, *start));
    }
    return {};
}

}  // namespace cairn::capture
