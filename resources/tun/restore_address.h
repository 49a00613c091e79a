// The addresses of an interface that a restart has made again, by rtnetlink(7).
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "resources/tun/schema.h"

namespace cairn::restart {

// Without looking for others on the link who have the same one (IFA_F_NODAD): sockets are bound to it at
// once.
[[nodiscard]] Result<> add_tun_address(unsigned index, const schema::TunAddress& address);
// Those that the interface has and that are none of these. What can't be removed stays.
void remove_other_addresses(const std::string& name, unsigned index,
                            const std::vector<schema::TunAddress>& wanted);
// When the interface is up: the next time that it comes up others are looked for again, where that was so.
// (A flag that is taken back has nobody looked for now: inet6_addr_modify() and addrconf_ifdown(),
// net/ipv6/addrconf.c.)
void settle_addresses(unsigned index, const std::vector<schema::TunAddress>& wanted);

}  // namespace cairn::restart
