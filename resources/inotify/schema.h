// What an image says of an inotify(7).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/schema/field.h"

namespace cairn::schema {

struct InotifyWatch {
    std::int32_t wd = 0;     // the number that the program knows it by
    std::uint32_t mask = 0;  // IN_*
    std::optional<std::string> path;
    std::optional<std::int64_t> object;  // Object id of a file without a name
};

struct Inotify {
    static constexpr std::string_view kind = "inotify";
    std::vector<InotifyWatch> watches;
    // Bytes of events that the program had not read. They are lost, and a restart says so by IN_Q_OVERFLOW.
    std::optional<std::uint32_t> unread;
};

template <Struct<InotifyWatch> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(wd);
    CAIRN_FIELD(mask);
    CAIRN_FIELD(path);
    CAIRN_FIELD(object);
}

template <Struct<Inotify> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(watches);
    CAIRN_FIELD(unread);
}

}  // namespace cairn::schema
