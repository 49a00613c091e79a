// Network interfaces of network namespaces of the group's own.
#pragma once

#include "resources/restore/opening.h"

namespace cairn::restart {

// When all such namespaces are open: interfaces but those of TUN/TAP, with their addresses, and the routes.
[[nodiscard]] Result<> make_links(Opening& opening);

// When this TUN/TAP interface of such a network is there: what it is a port of, and the routes that need it.
[[nodiscard]] Result<> join_links(Opening& opening, std::int64_t network, std::int32_t index);

}  // namespace cairn::restart
