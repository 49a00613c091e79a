// What an image says of a file, so that a restart knows it again.
#pragma once

#include "common/schema/field.h"

namespace cairn::schema {

struct FileIdentity {  // what a restart compares before it trusts a file's contents
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t tail_hash = 0;  // XXH3-64 of the last 64 KiB
    std::uint32_t mode = 0;
    std::uint64_t rdev = 0;
};

template <Struct<FileIdentity> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(device);
    CAIRN_FIELD(inode);
    CAIRN_FIELD(size);
    CAIRN_FIELD(mtime_ns);
    CAIRN_FIELD(tail_hash);
    CAIRN_FIELD(mode);
    CAIRN_FIELD(rdev);
}

}  // namespace cairn::schema
