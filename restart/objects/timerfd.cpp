#include <sys/ioctl.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <ctime>

#include "common/schema/extra.h"
#include "restart/objects/other.h"

namespace cairn::restart {
namespace {

constexpr unsigned long set_ticks = _IOW('T', 0, std::uint64_t);  // TFD_IOC_SET_TICKS, linux/timerfd.h

timespec time_of(std::int64_t nanoseconds) {
    return {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
}

}  // namespace

Result<Fd> open_timerfd(const schema::Object& object) {
    auto extra = TRY(schema::unpack(object.extra));
    Fd timer(::timerfd_create(schema::number<int>(extra, "clock"), TFD_CLOEXEC));
    if (!timer) return fail_errno("timerfd of clock {}", schema::number<int>(extra, "clock"));
    return timer;
}

Result<> arm_timerfd(const schema::Object& object, int fd, const proc::ClockOffsets& ahead) {
    auto extra = TRY(schema::unpack(object.extra));
    auto at = schema::number<std::int64_t>(extra, "at_ns");
    const auto clock = schema::number<int>(extra, "clock");
    if (at != 0 && clock == CLOCK_MONOTONIC) at = std::max<std::int64_t>(at - ahead.monotonic, 1);
    if (at != 0 && (clock == CLOCK_BOOTTIME || clock == CLOCK_BOOTTIME_ALARM))
        at = std::max<std::int64_t>(at - ahead.boottime, 1);
    const auto left = schema::number<std::int64_t>(extra, "left_ns");
    itimerspec when{};
    when.it_value = time_of(at != 0 ? at : left);
    when.it_interval = time_of(schema::number<std::int64_t>(extra, "interval_ns"));
    const int flags = at != 0 ? schema::number<int>(extra, "flags") : 0;
    if (::timerfd_settime(fd, flags, &when, nullptr) != 0) return fail_errno("timerfd");
    // Setting a timer clears what has expired and wasn't read. Needs CONFIG_CHECKPOINT_RESTORE; without it a
    // timer that fires at once stands in, at the cost of the interval's phase.
    const auto ticks = schema::number<std::uint64_t>(extra, "ticks");
    if (ticks != 0 && ::ioctl(fd, set_ticks, &ticks) != 0) {
        when.it_value = {0, 1};
        if (::timerfd_settime(fd, 0, &when, nullptr) != 0) return fail_errno("timerfd");
    }
    return {};
}

}  // namespace cairn::restart
