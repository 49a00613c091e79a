#include "common/timeout.h"

#include <sys/syscall.h>

namespace cairn {
namespace {

constexpr std::uint64_t below_red_zone = 512;

}  // namespace

bool may_time_out(const ptrace::Registers& registers) {
    const auto milliseconds = [](std::uint64_t argument) { return static_cast<std::int32_t>(argument); };
    switch (registers.orig_rax) {
        case SYS_poll:
            return milliseconds(registers.rdx) >= 0;
        case SYS_epoll_wait:
        case SYS_epoll_pwait:
            return milliseconds(registers.r10) >= 0;
        case SYS_futex:
            return registers.r10 != 0;
        case SYS_pause:
            return false;
        default:
            return true;
    }
}

std::optional<TimespecAt> shorten_timeout(ptrace::Registers& registers, std::int64_t left_ns) {
    const auto milliseconds = static_cast<std::uint64_t>((left_ns + 999'999) / 1'000'000);
    unsigned long long* argument = nullptr;
    switch (registers.orig_rax) {
        case SYS_poll:
            registers.rdx = milliseconds;
            return {};
        case SYS_epoll_wait:
        case SYS_epoll_pwait:
            registers.r10 = milliseconds;
            return {};
        case SYS_nanosleep:
            argument = &registers.rdi;
            break;
        case SYS_futex:  // FUTEX_WAIT: only this operation's timeout is noted
            argument = &registers.r10;
            break;
        case SYS_clock_nanosleep:
        case SYS_rt_sigtimedwait:
            argument = &registers.rdx;
            break;
        case SYS_epoll_pwait2:
        case SYS_semtimedop:
            argument = &registers.r10;
            break;
        default:
            return {};
    }
    *argument = (registers.rsp - below_red_zone) & ~std::uint64_t{15};
    return TimespecAt{ProgramAddress(*argument), left_ns / 1'000'000'000, left_ns % 1'000'000'000};
}

}  // namespace cairn
