// What hosts tell each other of TCP connections between their programs. At a checkpoint's barriers
// (docs/capture-protocol.md, "With other hosts"): what each finds, and what that makes together. At a restart
// (docs/protocol.md, restart-links): where the ends are now. Addresses at a checkpoint are in hexadecimal, so
// that they can be compared over hosts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/field.h"

namespace cairn::wire {

// At a checkpoint's barrier of its name a host says a message that has an Answer, and is told that when all
// hosts have said theirs. This answer says nothing.
struct Nothing {
    static constexpr Name name{"", ""};
};
template <Struct<Nothing> S, class F>
void fields(S&, F&&) {}

// All stand still.
struct AllStopped {
    static constexpr Name name{"", "stopped"};
    std::int32_t np = 0;  // processes on all hosts
};
template <Struct<AllStopped> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(np);
}
struct Stopped {
    static constexpr Name name{"", "stopped"};
    using Answer = AllStopped;
    std::int32_t processes = 0;  // here
};
template <Struct<Stopped> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(processes);
}

// What an end has sent and received since there is the connection, and what waits to be read.
struct EndCounted {
    std::uint64_t sent = 0, received = 0, waiting = 0;  // bytes
};
template <Struct<EndCounted> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(sent);
    CAIRN_FIELD(received);
    CAIRN_FIELD(waiting);
}

// An end that a member has and whose other end isn't on this host.
struct HeldEnd {
    std::string own{}, peer{};
    std::uint64_t unsent = 0;  // bytes that the peer hasn't acknowledged
    bool shown = false;        // they could be looked at, or there are none
    std::uint64_t room = std::numeric_limits<std::uint64_t>::max();  // so much more can be received
    std::optional<EndCounted> counted{};  // none: urgent data hide what is behind them
};
template <Struct<HeldEnd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(own);
    CAIRN_FIELD(peer);
    CAIRN_FIELD(unsent);
    CAIRN_FIELD(shown);
    CAIRN_FIELD_OR(room);
    CAIRN_FIELD(counted);
}

// An end that no process has.
struct UnheldEnd {
    std::string own{}, peer{};
    std::string listener{};    // who hasn't accepted it yet, in words; "": it is closed, and
    std::uint64_t unsent = 0;  // so many bytes are still on their way, its end counted
};
template <Struct<UnheldEnd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(own);
    CAIRN_FIELD(peer);
    CAIRN_FIELD_OR(listener);
    CAIRN_FIELD_OR(unsent);
}

// What is known of a held end when all hosts have told theirs.
struct MatchedEnd {
    std::size_t end = 0;                     // index in HostConnections::held
    std::int64_t link = -1;                  // number of the connection; -1: it has none
    std::int32_t side = 0;                   // of the connection: 0 or 1
    std::uint64_t unsent = 0;                // by the other end
    std::optional<std::uint64_t> unread{};   // by the other end, at most; none: it can't be told
    bool full = false;                       // there is no room here for what the other end has sent
    bool pending = false;                    // nobody has accepted it, there
    std::optional<std::uint64_t> closing{};  // the other end is closed, and so many bytes still come
    std::string refused{};                   // in words: why it can't be saved
};
template <Struct<MatchedEnd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(end);
    CAIRN_FIELD_OR(link);
    CAIRN_FIELD_OR_WITHIN(side, 0, 1);
    CAIRN_FIELD_OR(unsent);
    CAIRN_FIELD(unread);
    CAIRN_FIELD_OR(full);
    CAIRN_FIELD_OR(pending);
    CAIRN_FIELD(closing);
    CAIRN_FIELD_OR(refused);
}

// Something in a list that this host has told, and the number of the connection that it is.
struct NumberedLink {
    std::size_t index = 0;
    std::int64_t link = -1;
};
template <Struct<NumberedLink> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(index);
    CAIRN_FIELD(link);
}

struct MatchedConnections {
    static constexpr Name name{"", "connections"};
    std::vector<MatchedEnd> ends{};
    std::vector<NumberedLink> pending{}, called{}, awaited{};  // in `unheld`, `calls`, `reached`
    bool flow = false;                                         // what is in between has to arrive at first,
    bool full = false;                                         // but somewhere there is no room for it
};
template <Struct<MatchedConnections> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(ends);
    CAIRN_FIELD_OR(pending);
    CAIRN_FIELD_OR(called);
    CAIRN_FIELD_OR(awaited);
    CAIRN_FIELD_OR(flow);
    CAIRN_FIELD_OR(full);
}
struct HostConnections {
    static constexpr Name name{"", "connections"};
    using Answer = MatchedConnections;
    std::vector<HeldEnd> held{};
    std::vector<UnheldEnd> unheld{};
    std::vector<std::string> calls{}, reached{};  // addresses that somebody calls, and that can be called
};
template <Struct<HostConnections> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_OR(held);
    CAIRN_FIELD_OR(unheld);
    CAIRN_FIELD_OR(calls);
    CAIRN_FIELD_OR(reached);
}

// What was in between has arrived.
struct Flowed {
    static constexpr Name name{"", "flowed"};
    using Answer = Nothing;
};
template <Struct<Flowed> S, class F>
void fields(S&, F&&) {}

// This host has what it needs; its programs may run when all have.
struct HostCaptured {
    static constexpr Name name{"", "captured"};
    using Answer = Nothing;
};
template <Struct<HostCaptured> S, class F>
void fields(S&, F&&) {}

// A dead connection that keeps a port: words of two addresses, and their ports.
struct DeadConnection {
    std::string own{}, peer{};
    std::uint16_t own_port = 0, peer_port = 0;
};
template <Struct<DeadConnection> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(own);
    CAIRN_FIELD(own_port);
    CAIRN_FIELD(peer);
    CAIRN_FIELD(peer_port);
}

// An end of a connection between parts of a restart: how the other end's part comes to it.
struct PartEnd {
    std::int64_t link = -1;
    std::int32_t side = 0;
    std::int32_t wire = 1;                    // version of what parts say to each other
    std::uint16_t port = 0;                   // side 0 listens there,
    std::string at{};                         // at this address only; "": at all of its host's
    std::string token{}, key{};               // by which it knows who calls, and who calls knows it
    bool old = false;                         // it listens at the address that it had, too
    std::vector<DeadConnection> leftovers{};  // to be ended by the other part
    std::vector<std::string> addresses{};     // said by the coordinator: of its host; none: this one
};
template <Struct<PartEnd> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(link);
    CAIRN_FIELD_WITHIN(side, 0, 1);
    CAIRN_FIELD_OR(wire);
    CAIRN_FIELD_OR(port);
    CAIRN_FIELD_OR(at);
    CAIRN_FIELD_OR(token);
    CAIRN_FIELD_OR(key);
    CAIRN_FIELD_OR(old);
    CAIRN_FIELD_OR(leftovers);
    CAIRN_FIELD_OR(addresses);
}

// What a part says on the connection of its end of it, before the bytes themselves.
struct EndSays {
    static constexpr Name name{"", "what its other part says of itself"};
    std::uint64_t size = 0;                  // bytes that follow
    std::optional<std::uint32_t> arrived{};  // sequence number behind what it had received
    std::optional<std::uint64_t> mark{};     // urgent data: so many bytes are before them
    std::optional<std::uint8_t> urgent{};    // the byte, if it isn't among the others
    bool urgent_inline = false;              // SO_OOBINLINE
};
template <Struct<EndSays> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(size);
    CAIRN_FIELD(arrived);
    CAIRN_FIELD(mark);
    CAIRN_FIELD(urgent);
    CAIRN_FIELD_OR(urgent_inline);
}

}  // namespace cairn::wire
