// What an image says of a description of types (BTF) that a program has given the kernel (bpf(2),
// BPF_BTF_LOAD).
#pragma once

#include "common/schema/field.h"

namespace cairn::schema {

struct Btf {
    static constexpr std::string_view kind = "btf";
    std::int64_t btf = 0;  // the same for all open descriptions of one BTF
    Bytes types;           // what BPF_BTF_LOAD was given; with the first of these objects
};

template <Struct<Btf> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(btf);
    CAIRN_FIELD(types);
}

}  // namespace cairn::schema
