// What an image says of a TCP socket. What it has received and nobody has read is in Object::contents; the
// two ends of a connection have the same Object::pipe.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <vector>

#include "common/schema/field.h"
#include "resources/launcher/schema.h"
#include "resources/socket/schema.h"

namespace cairn::schema {

struct TcpListening {
    std::uint32_t backlog = 0;
    bool keep_listening = false;        // another port will do at the restart (--external=keep-listening)
    std::vector<std::int64_t> awaited;  // numbers of connections of other hosts that wait to be accepted
};

// Of a connection whose other end is on another host.
struct TcpLink {
    std::int64_t number = -1;  // of the connection in this checkpoint
    std::int32_t side = 0;     // 0 waits to be called, 1 calls
    std::optional<std::uint32_t>
        arrived;  // sequence number behind what was received; none: all that was sent
    std::optional<std::uint32_t> written;  // sequence number behind `sent`
    Bytes sent;                            // copy of the send queue
    // How many bytes the other end can have in its queues at most: received and not read, and sent. A restart
    // takes no more from it.
    std::optional<std::uint64_t> their_unread;  // none: a window's worth
    std::uint64_t their_unsent = 0;
};

struct UrgentMark {
    std::uint64_t before = 0;            // bytes before the mark
    std::optional<std::uint8_t> urgent;  // the urgent byte, if it is kept apart and was not read
};

struct Tcp {
    static constexpr std::string_view kind = "tcp";
    std::int32_t domain = AF_INET;
    Bytes own, peer_name;
    std::int32_t reuse_address = 0;
    SocketOptions options;
    std::optional<TcpListening> listening;
    bool connecting = false;                // connect(2) is under way
    bool dead = false;                      // it was connected and is so no more
    bool peer_gone = false, error = false;  // the other end has been closed; an error waits to be told
    bool no_more_sending = false, no_more_reading = false;  // shutdown(2) was called
    std::optional<std::int64_t> listener;                   // Object id of who hasn't accepted this one yet
    std::optional<std::int64_t> pending_at;  // who hasn't is on another host: number of the connection
    std::optional<TcpLink> link;
    std::optional<UrgentMark> mark;
    std::optional<LauncherRank> launcher;

    // A connection is finished and given away when its two ends stand. What waits for another socket is open
    // until all are: listeners and who waits at them, and connections to other hosts.
    [[nodiscard]] bool is_pending() const { return connecting || listener || pending_at; }
    [[nodiscard]] bool waits_for_others(bool) const { return listening || is_pending() || link; }
};

template <Struct<TcpListening> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(backlog);
    CAIRN_FIELD(keep_listening);
    CAIRN_FIELD(awaited);
}

template <Struct<TcpLink> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(number);
    CAIRN_FIELD_WITHIN(side, 0, 1);
    CAIRN_FIELD(arrived);
    CAIRN_FIELD(written);
    CAIRN_FIELD(sent);
    CAIRN_FIELD(their_unread);
    CAIRN_FIELD(their_unsent);
}

template <Struct<UrgentMark> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(before);
    CAIRN_FIELD(urgent);
}

template <Struct<Tcp> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(domain, AF_INET, AF_INET6);
    CAIRN_FIELD(own);
    CAIRN_FIELD(peer_name);
    CAIRN_FIELD(reuse_address);
    CAIRN_FIELD(options);
    CAIRN_FIELD(listening);
    CAIRN_FIELD(connecting);
    CAIRN_FIELD(dead);
    CAIRN_FIELD(peer_gone);
    CAIRN_FIELD(error);
    CAIRN_FIELD(no_more_sending);
    CAIRN_FIELD(no_more_reading);
    CAIRN_FIELD(listener);
    CAIRN_FIELD(pending_at);
    CAIRN_FIELD(link);
    CAIRN_FIELD(mark);
    CAIRN_FIELD(launcher);
}

}  // namespace cairn::schema
