// Seccomp filters: programs in classic BPF that the kernel asks about every system call (seccomp(2),
// linux/filter.h, net/core/filter.c). Judged here before a call of ours is made where one applies: the kernel
// kills rather than asks.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::seccomp {

using Code = std::vector<sock_filter>;

struct Argument {
    constexpr Argument(std::uint64_t number = 0) : value(number) {}
    std::uint64_t value;
    bool known = true;
};

// One that isn't known beforehand: an address, a length, the pid of somebody.
inline constexpr Argument any = [] {
    Argument unknown;
    unknown.known = false;
    return unknown;
}();

// Arguments that aren't given are 0, as they are in the registers.
struct Call {
    const char* name = "";
    long number = 0;
    std::array<Argument, 6> arguments = {};
};

// What the filter answers: SECCOMP_RET_* with its data. A program that the kernel would not have accepted
// kills.
[[nodiscard]] std::uint32_t evaluate(std::span<const sock_filter> code, const seccomp_data& data);

// Whether the call is simply made, from wherever it is made and whatever its unknown arguments are. What
// would take too long to find out isn't allowed.
[[nodiscard]] bool allows(std::span<const sock_filter> code, const Call& call);

// Whether it may ask a listener (SECCOMP_RET_USER_NOTIF); true as well if that can't be told.
[[nodiscard]] bool may_notify(std::span<const sock_filter> code);

// How a thread that has `before` gets one more filter.
enum class Way {
    none,          // they forbid it
    prctl,         // PR_SET_SECCOMP, for the thread alone
    seccomp,       // SECCOMP_SET_MODE_FILTER, for the thread alone
    synchronized,  // and for its siblings (SECCOMP_FILTER_FLAG_TSYNC): one filter, as it was
};
struct Step {
    Way way = Way::none;
    Call call;  // its third argument is the address of the struct sock_fprog, and unknown here
};
// `together`: for all threads, if that is allowed.
[[nodiscard]] Step next_step(std::span<const Code> before, bool log, bool together);

}  // namespace cairn::seccomp
