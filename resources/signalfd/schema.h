// What an image says of a signalfd(2).
#pragma once

#include "common/schema/field.h"

namespace cairn::schema {

struct Signalfd {
    static constexpr std::string_view kind = "signalfd";
    std::uint64_t mask = 0;  // bit n-1 for signal n
};

template <Struct<Signalfd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(mask);
}

}  // namespace cairn::schema
