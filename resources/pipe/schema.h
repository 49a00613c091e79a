// What an image says of pipes and FIFOs. Which ends a description is of is in Object::flags, which
// descriptions are of one pipe in Object::pipe, and what is in it in the Object::contents of one of them.
#pragma once

#include "common/schema/field.h"

namespace cairn::schema {

struct Pipe {
    static constexpr std::string_view kind = "pipe";
    std::int64_t capacity = 0;  // F_GETPIPE_SZ
};

struct Fifo {  // one with a name
    static constexpr std::string_view kind = "fifo";
    std::int64_t capacity = 0;
};

template <Struct<Pipe> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(capacity);
}

template <Struct<Fifo> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(capacity);
}

}  // namespace cairn::schema
