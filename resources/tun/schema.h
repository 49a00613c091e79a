// What an image says of a description of /dev/net/tun that is attached to an interface
// (Documentation/networking/tuntap.rst), and of that interface.
#pragma once

#include <net/if.h>

#include <optional>
#include <string>
#include <vector>

#include "common/schema/field.h"

namespace cairn::schema {

enum class TunMode { tun, tap };

template <>
struct EnumNames<TunMode> {
    static constexpr auto table =
        std::to_array<std::pair<TunMode, std::string_view>>({{TunMode::tun, "tun"}, {TunMode::tap, "tap"}});
};

// As rtnetlink(7) has it: struct ifaddrmsg, IFA_*. Addresses in network order.
struct TunAddress {
    std::uint8_t family = 0;  // AF_INET, AF_INET6
    std::uint8_t prefix = 0;  // bits
    std::uint8_t scope = 0;
    std::uint32_t flags = 0;
    Bytes own, peer, broadcast;  // peer: as own where there is none; broadcast may be empty
    std::string label;
    std::uint32_t valid = UINT32_MAX, preferred = UINT32_MAX;  // seconds that are left; 2^32-1: for ever
};

struct Tun {
    static constexpr std::string_view kind = "tun";
    std::string name;
    TunMode mode = TunMode::tun;
    bool packet_info = true;  // IFF_NO_PI isn't set
    std::uint32_t features =
        0;                    // IFF_VNET_HDR, IFF_MULTI_QUEUE, IFF_NAPI, ...: the rest of TUNSETIFF's flags
    bool persistent = false;  // TUNSETPERSIST
    std::optional<std::uint32_t> owner, group;
    std::int32_t header_size = 0;                    // TUNSETVNETHDRSZ, bytes
    bool little_endian = false, big_endian = false;  // TUNSETVNETLE, TUNSETVNETBE
    std::int32_t send_buffer = INT32_MAX;            // TUNSETSNDBUF, bytes
    std::uint32_t offloads = 0;                      // TUNSETOFFLOAD
    // Of the interface: for one that has to be made again.
    std::int32_t index = 0;
    std::uint16_t link_type = 0;  // ARPHRD_*
    Bytes hardware;               // its address, if it has one
    std::uint32_t mtu = 0, queue_length = 0;
    std::uint32_t interface_flags = 0;  // netdevice(7): those that can be set
    bool carrier = true;
    std::vector<TunAddress> addresses;
};

template <Struct<TunAddress> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(family);
    CAIRN_FIELD_WITHIN(prefix, 0, 128);
    CAIRN_FIELD(scope);
    CAIRN_FIELD(flags);
    CAIRN_FIELD(own);
    CAIRN_FIELD(peer);
    CAIRN_FIELD(broadcast);
    CAIRN_FIELD(label);
    CAIRN_FIELD(valid);
    CAIRN_FIELD(preferred);
}

template <Struct<Tun> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(name);
    CAIRN_FIELD(mode);
    CAIRN_FIELD(packet_info);
    CAIRN_FIELD(features);
    CAIRN_FIELD(persistent);
    CAIRN_FIELD(owner);
    CAIRN_FIELD(group);
    CAIRN_FIELD_WITHIN(header_size, 0, INT32_MAX);
    CAIRN_FIELD(little_endian);
    CAIRN_FIELD(big_endian);
    CAIRN_FIELD_WITHIN(send_buffer, 1, INT32_MAX);
    CAIRN_FIELD(offloads);
    CAIRN_FIELD_WITHIN(index, 1, INT32_MAX);
    CAIRN_FIELD(link_type);
    CAIRN_FIELD(hardware);
    CAIRN_FIELD_WITHIN(mtu, 1, INT32_MAX);
    CAIRN_FIELD(queue_length);
    CAIRN_FIELD(interface_flags);
    CAIRN_FIELD(carrier);
    CAIRN_FIELD(addresses);
}

}  // namespace cairn::schema
