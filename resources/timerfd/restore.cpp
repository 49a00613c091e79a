// timerfd_create(2): made when the others are, and set when the programs are about to go on.
#include <sys/ioctl.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <ctime>

#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

constexpr unsigned long set_ticks = _IOW('T', 0, std::uint64_t);  // TFD_IOC_SET_TICKS, linux/timerfd.h

timespec time_of(std::int64_t nanoseconds) {
    return {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
}

}  // namespace

Result<Fd> open_timerfd(Opening&, const schema::Object&, const schema::Timerfd& saved) {
    Fd timer(::timerfd_create(saved.clock, TFD_CLOEXEC));
    if (!timer) return fail_errno("timerfd of clock {}", saved.clock);
    return timer;
}

Result<> arm_timerfd(const schema::Object& object, int fd, AfterForest& after) {
    const auto& saved = *object.get<schema::Timerfd>();
    const proc::ClockOffsets& ahead = after.ahead;
    auto at = saved.at_ns.value_or(0);
    if (at != 0 && saved.clock == CLOCK_MONOTONIC) at = std::max<std::int64_t>(at - ahead.monotonic, 1);
    if (at != 0 && (saved.clock == CLOCK_BOOTTIME || saved.clock == CLOCK_BOOTTIME_ALARM))
        at = std::max<std::int64_t>(at - ahead.boottime, 1);
    itimerspec when{};
    when.it_value = time_of(at != 0 ? at : saved.left_ns);
    when.it_interval = time_of(saved.interval_ns);
    const int flags = at != 0 ? saved.flags : 0;
    if (::timerfd_settime(fd, flags, &when, nullptr) != 0) return fail_errno("timerfd");
    // Setting a timer clears what has expired and wasn't read. Needs CONFIG_CHECKPOINT_RESTORE; without it a
    // timer that fires at once stands in, at the cost of the interval's phase.
    if (saved.ticks != 0 && ::ioctl(fd, set_ticks, &saved.ticks) != 0) {
        when.it_value = {0, 1};
        if (::timerfd_settime(fd, 0, &when, nullptr) != 0) return fail_errno("timerfd");
    }
    return {};
}

}  // namespace cairn::restart
