// What an image says of a file whose contents it keeps, beyond what it says of all memory.
#pragma once

#include "common/schema/field.h"

namespace cairn::schema {

struct FileOwner {
    static constexpr std::string_view kind = "file";
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
};

template <Struct<FileOwner> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uid);
    CAIRN_FIELD(gid);
}

}  // namespace cairn::schema
