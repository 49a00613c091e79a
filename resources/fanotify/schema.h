// What an image says of a fanotify(7) group.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/schema/field.h"

namespace cairn::schema {

struct FanotifyMark {
    std::uint32_t of = 0;     // 0: an inode; or FAN_MARK_MOUNT, FAN_MARK_FILESYSTEM
    std::uint32_t flags = 0;  // FAN_MARK_*
    std::uint32_t mask = 0;
    std::uint32_t ignored = 0;
    std::optional<std::string> path;
    std::optional<std::int64_t> object;  // Object id of a file without a name
};

struct Fanotify {
    static constexpr std::string_view kind = "fanotify";
    std::uint32_t flags = 0;  // as fanotify_init(2) has them
    std::uint32_t event_flags = 0;
    std::vector<FanotifyMark> watches;    // as the kernel tells them: the newest first
    std::optional<std::uint32_t> unread;  // bytes of events, by FIONREAD
};

template <Struct<FanotifyMark> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(of);
    CAIRN_FIELD(flags);
    CAIRN_FIELD(mask);
    CAIRN_FIELD(ignored);
    CAIRN_FIELD(path);
    CAIRN_FIELD(object);
}

template <Struct<Fanotify> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(flags);
    CAIRN_FIELD(event_flags);
    CAIRN_FIELD(watches);
    CAIRN_FIELD(unread);
}

}  // namespace cairn::schema
