// What an image says of a file, so that a restart knows it again.
#pragma once

#include <optional>
#include <string>

#include "common/schema/field.h"

namespace cairn::schema {

struct FileIdentity {  // what a restart compares before it trusts a file's contents
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t tail_hash = 0;  // XXH3-64 of the last 64 KiB
    std::uint32_t mode = 0;
    std::uint64_t rdev = 0;
};

// How a file was reached by way of a mount namespace of the group's own.
struct InOwnMounts {
    std::int64_t space = -1;  // Object id of the namespace
    std::string path;         // in there
    bool only_there = false;  // no path outside leads to it
    // It is in the proc of a pid namespace of the group's own, which is mounted when its processes are there.
    std::optional<bool> inner_proc{};
};

// A regular file or directory or device by path: an open file description, or a file that is mapped,
// executed, or somebody's cwd (Object::flags: O_RDWR if mapped shared and writable, else O_RDONLY).
struct File {
    static constexpr std::string_view kind = "file";
    bool relied_on = false;  // mapped or executed, and its contents are not in an image
    std::optional<InOwnMounts> own_mounts;
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

template <Struct<InOwnMounts> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(space, 0, INT64_MAX);
    CAIRN_FIELD(path);
    CAIRN_FIELD(only_there);
    CAIRN_FIELD(inner_proc);
}

template <Struct<File> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(relied_on);
    CAIRN_FIELD(own_mounts);
}

}  // namespace cairn::schema
