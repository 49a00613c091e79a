// What an image says of a packet(7) socket.
#pragma once

#include <string>
#include <vector>

#include "common/schema/field.h"
#include "resources/socket/schema.h"

namespace cairn::schema {

struct PacketMembership {
    std::string interface;
    std::uint16_t type = 0;  // PACKET_MR_*
    std::int32_t count = 0;
    Bytes address;
};

struct Packet {
    static constexpr std::string_view kind = "packet";
    std::int32_t style = SOCK_RAW;
    std::uint16_t protocol = 0;  // that it is bound to, in network order
    std::string interface;       // that it is bound to; "": all
    std::int32_t index = 0;      // the interface's number
    std::vector<PacketMembership> memberships;
    std::uint32_t fanout = 0;  // PACKET_FANOUT: id, type and flags; 0: none
    SocketOptions options;
};

template <Struct<PacketMembership> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(interface);
    CAIRN_FIELD(type);
    CAIRN_FIELD_WITHIN(count, 0, INT32_MAX);
    CAIRN_FIELD(address);
}

template <Struct<Packet> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(style);
    CAIRN_FIELD(protocol);
    CAIRN_FIELD(interface);
    CAIRN_FIELD(index);
    CAIRN_FIELD(memberships);
    CAIRN_FIELD(fanout);
    CAIRN_FIELD(options);
}

}  // namespace cairn::schema
