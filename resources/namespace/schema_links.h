// What an image says of the network interfaces of a network namespace of the group's own, as rtnetlink(7) has
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/schema/field.h"
#include "resources/tun/schema.h"

namespace cairn::schema {

enum class LinkKind {
    loopback,
    dummy,
    bridge,
    veth,
    tun,  // a queue of it is another object, which says the rest
};

template <>
struct EnumNames<LinkKind> {
    static constexpr auto table =
        std::to_array<std::pair<LinkKind, std::string_view>>({{LinkKind::loopback, "loopback"},
                                                              {LinkKind::dummy, "dummy"},
                                                              {LinkKind::bridge, "bridge"},
                                                              {LinkKind::veth, "veth"},
                                                              {LinkKind::tun, "tun"}});
};

struct Link {
    std::string name;
    LinkKind kind = LinkKind::dummy;
    std::int32_t index = 0;
    Bytes hardware;  // its address
    std::uint32_t mtu = 0, queue_length = 0;
    std::uint32_t flags = 0;                 // netdevice(7): those that can be set
    std::int32_t master = 0;                 // index of the bridge that it is a port of; 0: none
    std::int32_t peer = 0;                   // of a veth: index of its other end
    std::optional<std::int64_t> peer_space;  // Object id of the network that that is in; none: the same
    Bytes settings;                          // of a bridge: attributes of IFLA_INFO_DATA that can be set
    std::vector<TunAddress> addresses;
};

template <Struct<Link> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(name);
    CAIRN_FIELD(kind);
    CAIRN_FIELD_WITHIN(index, 1, INT32_MAX);
    CAIRN_FIELD(hardware);
    CAIRN_FIELD(mtu);
    CAIRN_FIELD(queue_length);
    CAIRN_FIELD(flags);
    CAIRN_FIELD_WITHIN(master, 0, INT32_MAX);
    CAIRN_FIELD_WITHIN(peer, 0, INT32_MAX);
    CAIRN_FIELD(peer_space);
    CAIRN_FIELD(settings);
    CAIRN_FIELD(addresses);
}

}  // namespace cairn::schema
