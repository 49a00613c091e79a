// What an image says of a description of /dev/cpu_dma_latency, which keeps processors out of deep sleep.
#pragma once

#include <optional>

#include "common/schema/field.h"

namespace cairn::schema {

struct CpuLatency {
    static constexpr std::string_view kind = "cpu_latency";
    // Microseconds that a processor may take to wake up. None: nothing was asked for by it.
    std::optional<std::int32_t> request;
};

template <Struct<CpuLatency> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(request);
}

}  // namespace cairn::schema
