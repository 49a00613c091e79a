// What a time namespace of the group's own (time_namespaces(7)) does to clocks.
#pragma once

#include <cstdint>

#include "common/schema/field.h"

namespace cairn::schema {

// What they show more than to programs that are in none of the group's own, ns.
struct ClockLead {
    std::int64_t monotonic = 0, boottime = 0;
};

template <Struct<ClockLead> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(monotonic);
    CAIRN_FIELD(boottime);
}

}  // namespace cairn::schema
