// What an image says of an eventfd(2).
#pragma once

#include "common/schema/field.h"

namespace cairn::schema {

struct Eventfd {
    static constexpr std::string_view kind = "eventfd";
    std::uint64_t count = 0;
    bool semaphore = false;  // EFD_SEMAPHORE
};

template <Struct<Eventfd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(count);
    CAIRN_FIELD(semaphore);
}

}  // namespace cairn::schema
