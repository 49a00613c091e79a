// What an image says of a timerfd_create(2).
#pragma once

#include <optional>

#include "common/schema/field.h"

namespace cairn::schema {

struct Timerfd {
    static constexpr std::string_view kind = "timerfd";
    std::int32_t clock = 0;    // CLOCK_*
    std::int32_t flags = 0;    // TFD_TIMER_*
    std::uint64_t ticks = 0;   // expirations that nobody has read
    std::int64_t left_ns = 0;  // 0: not set
    std::int64_t interval_ns = 0;
    std::optional<std::int64_t> at_ns;  // a point in time, on the clock that the program sees
};

template <Struct<Timerfd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(clock, 0, 63);
    CAIRN_FIELD(flags);
    CAIRN_FIELD(ticks);
    CAIRN_FIELD_WITHIN(left_ns, 0, INT64_MAX);
    CAIRN_FIELD_WITHIN(interval_ns, 0, INT64_MAX);
    CAIRN_FIELD(at_ns);
}

}  // namespace cairn::schema
