// What an image says of a description of the kernel's log, /dev/kmsg.
#pragma once

#include <optional>

#include "common/schema/field.h"

namespace cairn::schema {

// Records are numbered from 0 on at each boot.
struct KmsgPosition {
    std::string boot;  // /proc/sys/kernel/random/boot_id
    std::uint64_t next =
        0;  // the record that is read next: one that has been overwritten, or that is to come
};

struct Kmsg {
    static constexpr std::string_view kind = "kmsg";
    std::optional<KmsgPosition> position;  // none: it can only be written to
};

template <Struct<KmsgPosition> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(boot);
    CAIRN_FIELD(next);
}

template <Struct<Kmsg> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(position);
}

}  // namespace cairn::schema
