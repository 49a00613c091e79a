// What the kernel tells of a TUN/TAP interface beyond what its queues can be asked: by rtnetlink(7), and
// which work it leaves to its other end, by ethtool's ioctl.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "resources/tun/schema.h"

namespace cairn::capture {

// RTM_GETLINK; IFLA_LINKINFO tells of a TUN/TAP interface since Linux 4.17.
struct TunLink {
    int index = 0;
    std::uint16_t type = 0;  // ARPHRD_*
    std::uint32_t flags = 0;
    std::uint32_t mtu = 0, queue_length = 0;
    schema::Bytes hardware;
    bool carrier = true;
    bool program = false;  // XDP
    int master = 0;        // index of the bridge and the like that it is a port of; 0: none
    bool is_tun = false;   // it is an interface of this driver's; all below is of these
    bool packet_info = false, persistent = false;
    std::optional<std::uint32_t> owner, group;
    std::uint32_t queues = 0, queues_off = 0;
};

// Of this network namespace; nothing if there is none of the name.
[[nodiscard]] Result<std::optional<TunLink>> find_tun_link(const std::string& name);
[[nodiscard]] Result<std::vector<schema::TunAddress>> tun_addresses(int index);
// Those that the kernel hasn't made by itself for the interface's addresses.
[[nodiscard]] Result<int> count_tun_routes(int index);
// TUN_F_*: TUNSETOFFLOAD's argument, by the features that the interface has because of it.
[[nodiscard]] Result<std::uint32_t> tun_offloads(const std::string& name);

}  // namespace cairn::capture
