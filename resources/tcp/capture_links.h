// TCP connections whose other end is on another host of the computation. Nothing is drained: the copy of what
// one has sent and the copy of what the other has got overlap or touch, and a restart puts them together.
// docs/decisions/0007-several-hosts.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "resources/capture/description.h"
#include "resources/capture/objects.h"
#include "resources/tcp/capture_queue.h"

namespace cairn::capture {

struct LinkEnd {
    const Description* socket = nullptr;
    std::string own, peer;  // addresses, comparable over hosts
    std::string who;        // for words
    [[nodiscard]] int fd() const { return socket->fd(); }

    // What is found out.
    std::int64_t link = -1;  // number of the connection in this checkpoint; -1: nobody has the other end
    bool pending = false;    // the other end waits in a listener's queue, empty
    int side = 0;
    std::uint64_t unsent = 0;              // sent and not acknowledged, when all stood still
    std::optional<std::uint32_t> written;  // sequence number behind `sent`
    schema::Bytes sent;                    // copy of the send queue
    std::uint64_t partner_unsent = 0;
    // So much the other end has received and not read at most; none: it can't be told.
    std::optional<std::uint64_t> partner_unread;
    std::optional<std::uint32_t>
        arrived;  // sequence number behind `received`; none: all that was sent has arrived
    Received received;
};

// A connection of this host that no process has: not accepted yet, or closed and not finished.
struct LooseEnd {
    std::string own, peer;
    std::string who;             // who doesn't accept it; "": closed, and what was sent is still on its way:
    std::uint64_t unsent = 0;    // so many bytes, its end counted
    std::int64_t listener = -1;  // object of who doesn't accept it

    std::int64_t link = -1;  // found out: it is a member's on another host
};

// What the hosts have told each other of who calls whom.
struct Calls {
    std::vector<std::string> to, at;  // OutgoingCall, ReachableAt
    // What is found out: index in `to`, `at` and the number of the connection.
    std::vector<std::pair<std::size_t, std::int64_t>> answered, awaited;
};

// Finds the other ends and what is in between. Everybody on every host stands still, and everybody calls
// this.
[[nodiscard]] Result<> meet_other_hosts(std::vector<LinkEnd>& ends, std::vector<LooseEnd>& loose,
                                        Calls& calls, const MeetHosts& meet);

}  // namespace cairn::capture
