#include "common/ptrace/remote_call.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/ptrace/thread.h"

namespace cairn::ptrace {

Result<ProgramAddress> find_syscall(pid_t pid, ProgramAddress code, std::uint64_t length) {
    std::vector<std::byte> text(length);
    CHECK_OK(read_memory(pid, code, text));
    constexpr std::array instruction = {std::byte{0x0f}, std::byte{0x05}};
    const auto found = std::ranges::search(text, instruction);
    if (found.empty()) return fail("no system call instruction at {:#x} of {}", code, pid);
    return code + static_cast<std::uint64_t>(found.begin() - text.begin());
}

Result<std::int64_t> remote_call(pid_t tid, ProgramAddress syscall_at, long number,
                                 std::span<const std::uint64_t> arguments) {
    auto now = TRY(registers(tid));
    std::array<std::uint64_t, 6> given = {};
    std::ranges::copy(arguments, given.begin());
    now.rip = syscall_at.value();
    now.rax = static_cast<std::uint64_t>(number);
    now.orig_rax = static_cast<std::uint64_t>(-1);
    now.rdi = given[0];
    now.rsi = given[1];
    now.rdx = given[2];
    now.r10 = given[3];
    now.r8 = given[4];
    now.r9 = given[5];
    CHECK_OK(set_registers(tid, now));
    // A stop before the call and one behind it, and perhaps one for a trap that was on its way, and those of
    // job control, which nothing blocks.
    constexpr int most_stops = 20;
    int signal = 0;
    for (int stops = 0; stops < most_stops; ++stops) {
        CHECK_OK(resume_to_call(tid, std::exchange(signal, 0)));
        int status = 0;
        if (::waitpid(tid, &status, __WALL) != tid) return fail_errno("waiting for {}", tid);
        const int stop = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
        if (stop != 0 && status >> 16 == event_stop) continue;
        if (stop == SIGSTOP && status >> 16 == 0) {
            signal = stop;
            continue;
        }
        if ((stop != SIGTRAP && stop != call_stop) || status >> 16 != 0)
            return fail("process {} died in system call {} that was made in it (status {:#x})", tid, number,
                        status);
        now = TRY(registers(tid));
        const bool called = now.rip != syscall_at.value() && static_cast<long>(now.orig_rax) == number;
        const bool entering = static_cast<std::int64_t>(now.rax) == -ENOSYS;
        if (called && !entering) return static_cast<std::int64_t>(now.rax);
    }
    return fail("process {}: system call {} that was made in it doesn't end", tid, number);
}

}  // namespace cairn::ptrace
