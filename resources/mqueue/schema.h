// What an image says of a POSIX message queue (mq_overview(7)).
#pragma once

#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/program_fd.h"
#include "common/schema/field.h"

namespace cairn::schema {

struct MqueueMessage {
    std::uint32_t priority = 0;
    Bytes text;
};

// Who is to be told of the next message (mq_notify(3)).
struct MqueueNotify {
    ProgramId pid;
    std::int32_t how = 0;  // SIGEV_*
    std::int32_t signal = 0;
    std::uint64_t value = 0;
    std::optional<ProgramFd> socket;  // SIGEV_THREAD: the netlink socket by which its libc hears of it
    Bytes notice;                     // SIGEV_THREAD: what comes out of the socket then, 32 bytes
};

struct Mqueue {
    static constexpr std::string_view kind = "mqueue";
    std::uint64_t queue = 0;  // the same number for all descriptions of one queue
    std::uint32_t mode = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::int64_t messages_at_most = 0;
    std::int64_t bytes_at_most = 0;       // of one message
    std::vector<MqueueMessage> messages;  // in the first description of the queue
    std::optional<MqueueNotify> notify;   // likewise
    // Object id of the IPC namespace of the group's own that it is in; none: the one that the restart is in
    std::optional<std::int64_t> space;
};

template <Struct<MqueueMessage> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(priority);
    CAIRN_FIELD(text);
}

template <Struct<MqueueNotify> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pid);
    CAIRN_FIELD(how);
    CAIRN_FIELD(signal);
    CAIRN_FIELD(value);
    CAIRN_FIELD(socket);
    CAIRN_FIELD(notice);
}

template <Struct<Mqueue> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(queue);
    CAIRN_FIELD_WITHIN(mode, 0, 07777);
    CAIRN_FIELD(uid);
    CAIRN_FIELD(gid);
    CAIRN_FIELD_WITHIN(messages_at_most, 0, INT64_MAX);
    CAIRN_FIELD_WITHIN(bytes_at_most, 0, INT64_MAX);
    CAIRN_FIELD(messages);
    CAIRN_FIELD(notify);
    CAIRN_FIELD(space);
}

}  // namespace cairn::schema
