#include <sys/timerfd.h>

#include <cstdio>
#include <ctime>

#include "capture/objects/table.h"
#include "common/schema/extra.h"

namespace cairn::capture {
namespace {

std::int64_t nanoseconds(std::string_view info, std::string_view key) {
    const std::string field(info_field(info, key).value_or(""));
    long long seconds = 0, rest = 0;
    return std::sscanf(field.c_str(), "(%lld, %lld)", &seconds, &rest) == 2 ? seconds * 1'000'000'000 + rest
                                                                            : 0;
}

}  // namespace

// it_value is the time left, also of a timer that was set for a point in time.
Result<> describe_timerfd(Table&, const Description& found, schema::Object& object) {
    const auto clock = static_cast<int>(info_number(found.info, "clockid"));
    const auto flags = static_cast<int>(info_number(found.info, "settime flags", 8));
    const std::int64_t left = nanoseconds(found.info, "it_value");
    nlohmann::json extra{{"clock", clock},
                         {"flags", flags},
                         {"ticks", info_number(found.info, "ticks")},
                         {"left_ns", left},
                         {"interval_ns", nanoseconds(found.info, "it_interval")}};
    // A point in civil time is the same one after the restart.
    if ((flags & TFD_TIMER_ABSTIME) && left > 0 &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM)) {
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        extra["at_ns"] = now.tv_sec * 1'000'000'000 + now.tv_nsec + left;
    }
    object.extra = schema::pack(extra);
    return {};
}

}  // namespace cairn::capture
