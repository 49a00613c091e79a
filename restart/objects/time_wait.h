// What the kernel keeps of TCP connections that have ended (TIME_WAIT, a minute long).
#pragma once

#include <vector>

#include "restart/objects/addresses.h"

namespace cairn::restart {

// Ends those at this port, so that it can be bound again: as root by SOCK_DESTROY (CONFIG_INET_DIAG_DESTROY),
// else those whose other end was on this host, by call_and_hang_up.
void end_time_wait(const Address& address);

// The ends in TIME_WAIT at this port, whatever their addresses.
struct Leftover {
    Address own, peer;
};
[[nodiscard]] std::vector<Leftover> leftovers_at(const Address& address);

// Ends what is left of this connection's end at `own`, if nobody holds it any more. The same is needed.
void end_leftover(const Address& own, const Address& peer);

// Calls as the connection's dead end at `from` would: the end at `to`, if it is in TIME_WAIT, acknowledges
// what it had received, and `from`, which knows nothing of that, resets it (RFC 1337 calls it assassination;
// Linux allows it unless net.ipv4.tcp_rfc1337 is set). Needs no privilege, and is over one way there and back
// later.
void call_and_hang_up(const Address& from, const Address& to);

}  // namespace cairn::restart
