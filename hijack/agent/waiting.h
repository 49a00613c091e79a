// How threads that run the agent wait: for a command, or until the capture lets them go or is gone. Included
// by agent.cpp alone, whose rules hold.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "common/agent.h"
#include "common/raw.h"

namespace cairn::waiting {

using raw::call;

constexpr long no_such_process = -3;
constexpr std::uint64_t no_signal = 0;

// Whether the capture that started us is still there. The region's number is cleared by a coordinator that
// sees its capture die; the pid covers the case that both are gone.
inline bool capture_lives(const AgentThread* self) {
    const auto* number = reinterpret_cast<const std::atomic<std::uint64_t>*>(self->header_capture);
    if (number->load(std::memory_order_acquire) != self->capture) return false;
    return self->tracer <= 0 || call(SYS_kill, self->tracer, 0) != no_such_process;
}

struct WaitV {  // struct futex_waitv, linux/futex.h of 5.16
    std::uint64_t value, address;
    std::uint32_t flags, reserved;
};

// How long to sleep at most before looking whether the capture lives: longer each time, for a thousand
// processes that look every 20 ms leave the capture no processor. Nor do a thousand siblings of one, whom the
// thread that takes commands wakes when it has seen that the capture is gone: they look only in case that
// they have missed it. Where filters are suspended as long as it lives a look too late is death, and one
// isn't needed: who clears the region's number wakes everybody.
class Patience {
  public:
    explicit Patience(const AgentThread* self)
        : milliseconds_(self->filters_suspended != 0 ? longest_of_suspended
                        : self->leader != 0          ? shortest
                                                     : of_siblings),
          unwoken_(self->leader != 0 ? shortest : of_unwoken_siblings) {}
    // Returns when the region's number is another one, when `word` (may be null) is no longer `seen`, or when
    // the time is over. Unlike FUTEX_WAIT with a timeout, poll and nanosleep, futex_waitv and rt_sigtimedwait
    // have no restart block that they could overwrite.
    void sleep(const AgentThread* self, const std::atomic<std::uint32_t>* word, std::uint32_t seen) {
        constexpr long futex_waitv = 449, no_such_call = -38;
        constexpr std::uint32_t futex_32 = 2;
        // The number's lower half is a futex: who changes it wakes everybody (common/capture_number.h).
        const WaitV waiters[2] = {
            {static_cast<std::uint32_t>(self->capture), self->header_capture, futex_32, 0},
            {seen, reinterpret_cast<std::uint64_t>(word), futex_32, 0}};
        timespec until = {};
        call(SYS_clock_gettime, CLOCK_MONOTONIC, &until);
        until.tv_sec += milliseconds_ / 1'000;
        until.tv_nsec += milliseconds_ % 1'000 * 1'000'000;
        if (until.tv_nsec >= 1'000'000'000) {
            until.tv_nsec -= 1'000'000'000;
            ++until.tv_sec;
        }
        const long result = call(futex_waitv, waiters, word != nullptr ? 2 : 1, 0, &until, CLOCK_MONOTONIC);
        if (result == no_such_call) {  // Linux before 5.16: nobody wakes it
            const timespec slice = {0, unwoken_ * 1'000'000};
            call(SYS_rt_sigtimedwait, &no_signal, nullptr, &slice, sizeof no_signal);
        } else if (milliseconds_ < longest) {
            milliseconds_ *= 2;
        }
    }

  private:
    static constexpr long shortest = 20, longest = 640, of_siblings = 2'000, of_unwoken_siblings = 160,
                          longest_of_suspended = 20'000;
    long milliseconds_, unwoken_;
};

// They see for themselves that the capture is gone. A filter that is heeded again may kill for this call, and
// who is under one doesn't wait for it.
inline void wake_siblings(const AgentThread* self) {
    if (self->filters_suspended == 0) call(SYS_futex, self->header_capture, FUTEX_WAKE, INT32_MAX);
}

}  // namespace cairn::waiting
