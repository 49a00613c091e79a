// The fields of what is saved of kernel objects (common/schema/field.h tells how they are described).
#pragma once

#include "common/schema/fields.h"
#include "resources/schema/object.h"

namespace cairn::schema {

template <Struct<Object> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(id);
    CAIRN_FIELD(kind);
    CAIRN_FIELD(path);
    CAIRN_FIELD(deleted);
    CAIRN_FIELD(identity);
    CAIRN_FIELD(flags);
    CAIRN_FIELD(position);
    CAIRN_FIELD(owner);
    CAIRN_FIELD(owner_type);
    CAIRN_FIELD(owner_signal);
    CAIRN_FIELD(standard);
    CAIRN_FIELD(outside);
    CAIRN_FIELD(relied_on);
    CAIRN_FIELD(backing);
    CAIRN_FIELD(pipe);
    CAIRN_FIELD(capacity);
    CAIRN_FIELD(contents);
    CAIRN_FIELD(pty);
    CAIRN_FIELD(pty_index);
    CAIRN_FIELD(termios);
    CAIRN_FIELD(winsize);
    CAIRN_FIELD(packet_mode);
    CAIRN_FIELD(locked);
    CAIRN_FIELD(input);
    CAIRN_FIELD(session);
    CAIRN_FIELD(foreground);
    CAIRN_FIELD(size);
    CAIRN_FIELD(seals);
    CAIRN_FIELD(name);
    CAIRN_FIELD(memfd_flags);
    CAIRN_FIELD(pages);
    CAIRN_FIELD(what);
    CAIRN_FIELD(type);
}

template <Struct<Objects> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD(np);
    CAIRN_FIELD(objects);
}

template <>
struct EnumNames<ObjectKind> {
    static constexpr auto table =
        std::to_array<std::pair<ObjectKind, std::string_view>>({{ObjectKind::file, "file"},
                                                                {ObjectKind::pipe_read, "pipe_read"},
                                                                {ObjectKind::pipe_write, "pipe_write"},
                                                                {ObjectKind::pipe_both, "pipe_both"},
                                                                {ObjectKind::fifo, "fifo"},
                                                                {ObjectKind::pty_master, "pty_master"},
                                                                {ObjectKind::pty_slave, "pty_slave"},
                                                                {ObjectKind::terminal, "terminal"},
                                                                {ObjectKind::memory, "memory"},
                                                                {ObjectKind::other, "other"}});
};

}  // namespace cairn::schema
