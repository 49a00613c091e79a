// What an image says of an epoll(7).
#pragma once

#include <vector>

#include "common/program_fd.h"
#include "common/schema/field.h"

namespace cairn::schema {

struct EpollTarget {
    ProgramFd fd;              // the number that it was added by
    std::int64_t object = -1;  // Object id
    std::uint32_t events = 0;  // as /proc shows them: a oneshot that has reported has no event left
    std::uint64_t data = 0;
};

struct Epoll {
    static constexpr std::string_view kind = "epoll";
    std::vector<EpollTarget> targets;
};

template <Struct<EpollTarget> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(fd, 0, INT32_MAX);
    CAIRN_FIELD(object);
    CAIRN_FIELD(events);
    CAIRN_FIELD(data);
}

template <Struct<Epoll> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(targets);
}

}  // namespace cairn::schema
