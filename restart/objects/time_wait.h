// What the kernel keeps of TCP connections that have ended (TIME_WAIT, a minute long).
#pragma once

#include "restart/objects/addresses.h"

namespace cairn::restart {

// Ends those at this port, so that it can be bound again. Needs CAP_NET_ADMIN and CONFIG_INET_DIAG_DESTROY;
// without, nothing happens.
void end_time_wait(const Address& address);

}  // namespace cairn::restart
