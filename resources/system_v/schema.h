// What an image says of System V shared memory, semaphores and message queues (sysvipc(7)).
#pragma once

#include <optional>
#include <vector>

#include "common/schema/field.h"

namespace cairn::schema {

struct IpcPermissions {
    std::int32_t id = 0;  // the program's
    std::int32_t key = 0;
    std::uint32_t mode = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    // Object id of the IPC namespace of the group's own that it is in, where all these are as its own
    // processes are told; none: the one that the restart is in
    std::optional<std::int64_t> space;
};

struct Segment {  // a Memory's
    IpcPermissions permissions;
    bool removed = false;  // goes when the last has detached it
    bool locked = false;   // SHM_LOCK
};

struct Semaphores {
    static constexpr std::string_view kind = "semaphores";
    IpcPermissions permissions;
    std::vector<std::uint16_t> values;
};

struct IpcMessage {
    std::int64_t type = 0;
    Bytes text;
};

struct MessageQueue {
    static constexpr std::string_view kind = "messages";
    IpcPermissions permissions;
    std::uint64_t bytes = 0;  // msg_qbytes
    std::vector<IpcMessage> messages;
};

template <Struct<IpcPermissions> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(id);
    CAIRN_FIELD(key);
    CAIRN_FIELD_WITHIN(mode, 0, 0777);
    CAIRN_FIELD(uid);
    CAIRN_FIELD(gid);
    CAIRN_FIELD(space);
}

template <Struct<Segment> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(permissions);
    CAIRN_FIELD(removed);
    CAIRN_FIELD(locked);
}

template <Struct<Semaphores> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(permissions);
    CAIRN_FIELD(values);
}

template <Struct<IpcMessage> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(type);
    CAIRN_FIELD(text);
}

template <Struct<MessageQueue> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(permissions);
    CAIRN_FIELD(bytes);
    CAIRN_FIELD(messages);
}

}  // namespace cairn::schema
