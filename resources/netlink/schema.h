// What an image says of a netlink(7) socket.
#pragma once

#include "common/schema/field.h"
#include "resources/socket/schema.h"

namespace cairn::schema {

struct Netlink {
    static constexpr std::string_view kind = "netlink";
    std::int32_t style = SOCK_RAW, protocol = 0;
    Bytes own, peer_name;
    Bytes groups;  // bits of NETLINK_LIST_MEMBERSHIPS
    SocketOptions options;
};

template <Struct<Netlink> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(style);
    CAIRN_FIELD(protocol);
    CAIRN_FIELD(own);
    CAIRN_FIELD(peer_name);
    CAIRN_FIELD(groups);
    CAIRN_FIELD(options);
}

}  // namespace cairn::schema
