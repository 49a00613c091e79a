// TCP connections whose other end is in another part of the computation, on this host or another: the two
// restarts find each other by the coordinator, connect, and tell each other what was on its way.
// docs/decisions/0007-several-hosts.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/schema/process.h"
#include "common/wire/connections.h"
#include "resources/ports/restore_time_wait.h"
#include "resources/socket/restore_addresses.h"
#include "resources/tcp/schema.h"

namespace cairn::restart {

// Tells the coordinator of our ends and returns their other ends, when all are known.
using MeetLinks = std::function<Result<std::vector<wire::PartEnd>>(std::vector<wire::PartEnd> ends)>;

// What of the received data is urgent, and whether it is among the rest (SO_OOBINLINE).
struct TcpUrgency {
    std::optional<schema::UrgentMark> mark;
    bool among = false;
};

struct Link {
    schema::TcpLink saved;
    TcpUrgency urgency;
    int domain = 0;
    Address own, peer;  // as the programs know them
    Address peer_now;   // where the peer's host is now
    const schema::Bytes* contents = nullptr;
    std::function<Fd()> make;  // a socket of this domain with the options that come first
    std::function<bool(int fd, const Address& own)> bind;

    Fd fd;  // connected
    TcpUrgency their_urgency;
    // What it had received and not read, and after `received_size` what was in between. It goes to it over
    // the connection as such: the kernel puts nothing else into a receive queue.
    schema::Bytes to_send;
    std::size_t received_size = 0;
    // What was in between in the other direction: it comes behind `contents`.
    schema::Bytes between;
};

// An error once the restart has been given up elsewhere: nobody comes any more whom it could be waited for.
using StillWanted = std::function<Result<>()>;

struct LinkSurroundings {
    const MeetLinks& meet;
    const StillWanted& still_wanted;
    const std::vector<std::string>& hosts;  // addresses that the computation's hosts have now
    // What keeps a port from a server here and can be ended by who has the other end's address only; they are
    // asked to.
    std::vector<Leftover> leftovers;
};
[[nodiscard]] Result<> connect_links(std::vector<Link*> links, const LinkSurroundings& surroundings);

}  // namespace cairn::restart
