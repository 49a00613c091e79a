#include "common/ptrace/remote_call.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "common/ptrace/thread.h"

namespace cairn::ptrace {

std::optional<std::uint64_t> find_syscall(std::span<const std::byte> code) {
    constexpr std::array instruction = {std::byte{0x0f}, std::byte{0x05}};
    const auto found = std::ranges::search(code, instruction);
    if (found.empty()) return std::nullopt;
    return static_cast<std::uint64_t>(found.begin() - code.begin());
}

Result<ProgramAddress> find_syscall(pid_t pid, ProgramAddress code, std::uint64_t length) {
    std::vector<std::byte> text(length);
    CHECK_OK(read_memory(pid, code, text));
    const auto offset = find_syscall(text);
    if (!offset) return fail("no system call instruction at {:#x} of {}", code, pid);
    return code + *offset;
}

Result<RemoteCall> RemoteCall::begin(pid_t tid, ProgramAddress syscall_at, long number,
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
    CHECK_OK(resume_to_call(tid, 0));
    return RemoteCall(tid, syscall_at, number);
}

Result<> RemoteCall::go_on() {
    if (result_) return {};
    int status = 0;
    if (::waitpid(tid_, &status, __WALL) != tid_) return fail_errno("waiting for {}", tid_);
    const int stop = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    if (stop != 0 && status >> 16 == event_stop) return resume_to_call(tid_, 0);
    if (stop == SIGSTOP && status >> 16 == 0) return resume_to_call(tid_, stop);
    if ((stop != SIGTRAP && stop != call_stop) || status >> 16 != 0)
        return fail("process {} died in system call {} that was made in it (status {:#x})", tid_, number_,
                    status);
    const auto now = TRY(registers(tid_));
    const bool called = now.rip != syscall_at_.value() && static_cast<long>(now.orig_rax) == number_;
    const bool entering = static_cast<std::int64_t>(now.rax) == -ENOSYS;
    if (!called || entering) return resume_to_call(tid_, 0);
    result_ = static_cast<std::int64_t>(now.rax);
    return {};
}

Result<std::int64_t> RemoteCall::finish() {
    // A stop before the call and one behind it, and perhaps one for a trap that was on its way, and those of
    // job control, which nothing blocks.
    constexpr int most_stops = 20;
    for (int stops = 0; stops < most_stops && !result_; ++stops) CHECK_OK(go_on());
    if (!result_) return fail("process {}: system call {} that was made in it doesn't end", tid_, number_);
    return *result_;
}

Result<std::int64_t> remote_call(pid_t tid, ProgramAddress syscall_at, long number,
                                 std::span<const std::uint64_t> arguments) {
    auto call = TRY(RemoteCall::begin(tid, syscall_at, number, arguments));
    return call.finish();
}

}  // namespace cairn::ptrace
