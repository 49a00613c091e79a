// What the kernel keeps of TCP connections that have ended (TIME_WAIT, a minute long). docs/ports.md draws
// what is tried in which order.
#pragma once

#include <chrono>
#include <vector>

#include "resources/socket/restore_addresses.h"

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

// With ports that the kernel keeps for dead connections between addresses of this host.
class LeftoverPatience {
  public:
    // A call from `own` to `peer` has failed with EADDRNOTAVAIL or EADDRINUSE: true if it may be tried again.
    // At first what is left of the connection is ended as far as it can be (end_leftover). What remains
    // doesn't matter a second later on 127.0.0.0/8 and ::1 (tcp_tw_reuse = 2): that is waited for once, in
    // steps of 20 ms, not for each connection.
    [[nodiscard]] bool worth_another_call(const Address& own, const Address& peer, bool first);

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point ends_;
};

// Calls as the connection's dead end at `from` would: the end at `to`, if it is in TIME_WAIT, acknowledges
// what it had received, and `from`, which knows nothing of that, resets it (RFC 1337 calls it assassination;
// Linux allows it unless net.ipv4.tcp_rfc1337 is set). Needs no privilege, and is over one way there and back
// later.
void call_and_hang_up(const Address& from, const Address& to);

}  // namespace cairn::restart
