// What an image says of a Unix socket. What waits in it is in Object::contents: messages, or stretches of a
// stream, which begin where descriptors or another sender's credentials do. The two ends of a connection have
// the same Object::pipe.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/schema/field.h"
#include "resources/launcher/schema.h"
#include "resources/socket/schema.h"

namespace cairn::schema {

struct UnixListening {
    std::uint32_t backlog = 0;
    std::vector<std::int64_t> pending;  // Object ids of clients, oldest first; -1: one that has closed
};

struct UnixFile {
    std::uint32_t mode = 0, uid = 0, gid = 0;
};

// Of an element of Object::contents.
struct UnixMessage {
    Bytes from;  // datagrams: the address of its sender
    std::optional<Credentials> sender;
    std::vector<std::int64_t> rights;  // Object ids of descriptors sent with it
};

struct UnixSocket {
    static constexpr std::string_view kind = "unix";
    std::int32_t style = SOCK_STREAM;
    std::int32_t shutdown = 0;  // 1: no more reading, 2: no more sending
    Bytes name;
    std::string folder;                // where a name that is a relative path begins
    std::optional<UnixFile> file;      // none: a name that is a path had lost its file
    std::optional<std::string> moved;  // whole path that this file has now, if its name has been changed
    Bytes peer_name;
    SocketOptions options;
    std::optional<UnixListening> listening;
    std::optional<std::int64_t> peer;  // Object id of the other end, or of who gets its datagrams
    bool connected = false;
    bool peer_gone = false, error = false;  // the other end has been closed; an error waits to be told
    std::optional<Credentials> peer_credentials;
    std::optional<Credentials> own_credentials;  // of who has called a listener that hasn't accepted it yet
    std::vector<UnixMessage> messages;  // one for each element of Object::contents; empty: plain data
    std::optional<LauncherRank> launcher;

    // These may be of sockets that aren't made yet.
    [[nodiscard]] bool carries_descriptors() const {
        return std::ranges::any_of(messages, [](const UnixMessage& each) { return !each.rights.empty(); });
    }
    // As of TCP; and datagram sockets, and those through which descriptors of others are on their way.
    // `has_peer`: the other end is known, or nobody's in the group.
    [[nodiscard]] bool waits_for_others(bool has_peer) const {
        return style == SOCK_DGRAM || (!has_peer && !peer_gone) || carries_descriptors();
    }
};

template <Struct<UnixListening> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(backlog);
    CAIRN_FIELD(pending);
}

template <Struct<UnixFile> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(mode, 0, 07777);
    CAIRN_FIELD(uid);
    CAIRN_FIELD(gid);
}

template <Struct<UnixMessage> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(from);
    CAIRN_FIELD(sender);
    CAIRN_FIELD(rights);
}

template <Struct<UnixSocket> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(style);
    CAIRN_FIELD_WITHIN(shutdown, 0, 3);
    CAIRN_FIELD(name);
    CAIRN_FIELD(folder);
    CAIRN_FIELD(file);
    CAIRN_FIELD(moved);
    CAIRN_FIELD(peer_name);
    CAIRN_FIELD(options);
    CAIRN_FIELD(listening);
    CAIRN_FIELD(peer);
    CAIRN_FIELD(connected);
    CAIRN_FIELD(peer_gone);
    CAIRN_FIELD(error);
    CAIRN_FIELD(peer_credentials);
    CAIRN_FIELD(own_credentials);
    CAIRN_FIELD(messages);
    CAIRN_FIELD(launcher);
}

}  // namespace cairn::schema
