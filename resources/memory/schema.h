// What an image says of an inode whose contents it keeps. It is mapped, or the `backing` of descriptions
// (Object::flags: O_RDWR if mapped shared and writable; O_TMPFILE if it was made so).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/schema/process.h"
#include "resources/system_v/schema.h"

namespace cairn::schema {

enum class MemoryType {
    anonymous,  // MAP_SHARED|MAP_ANONYMOUS
    memfd,
    sysv,
    file,  // deleted, or kept in memory only as in /dev/shm
};

template <>
struct EnumNames<MemoryType> {
    static constexpr auto table =
        std::to_array<std::pair<MemoryType, std::string_view>>({{MemoryType::anonymous, "anonymous"},
                                                                {MemoryType::memfd, "memfd"},
                                                                {MemoryType::sysv, "sysv"},
                                                                {MemoryType::file, "file"}});
};

struct FileOwner {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
};

struct Memory {
    static constexpr std::string_view kind = "memory";
    MemoryType type = MemoryType::anonymous;
    std::uint64_t size = 0;          // bytes
    std::vector<ObjectRun> pages;    // in the objects image
    std::optional<FileOwner> owner;  // of a file
    std::uint32_t seals = 0;         // of a memfd; and its name and flags
    std::string name;
    std::int32_t memfd_flags = 0;
    std::optional<Segment> segment;  // System V
};

template <Struct<FileOwner> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uid);
    CAIRN_FIELD(gid);
}

template <Struct<Memory> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(type);
    CAIRN_FIELD(size);
    CAIRN_FIELD(pages);
    CAIRN_FIELD(owner);
    CAIRN_FIELD(seals);
    CAIRN_FIELD(name);
    CAIRN_FIELD(memfd_flags);
    CAIRN_FIELD(segment);
}

}  // namespace cairn::schema
