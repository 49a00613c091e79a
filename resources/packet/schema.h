// What an image says of a packet(7) socket.
#pragma once

#include <optional>
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

// The ring into which the kernel writes what comes (PACKET_RX_RING). Its memory is Object::contents.
struct PacketRing {
    std::uint32_t version = 0;  // TPACKET_V1 and so on
    std::uint32_t block_size = 0, block_count = 0, frame_size = 0, frame_count = 0;
    std::uint32_t retire_ms = 0, private_size = 0, features = 0;  // of TPACKET_V3
    std::uint32_t reserve = 0, copy_threshold = 0;                // PACKET_RESERVE, PACKET_COPY_THRESH
    bool loss = false;                                            // PACKET_LOSS
    std::uint32_t head = 0;  // the frame (TPACKET_V3: the block) that the kernel fills next
    bool full = false;       // TPACKET_V3: that one hasn't been read yet, and the kernel waits for it
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
    std::optional<PacketRing> ring;
};

template <Struct<PacketMembership> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(interface);
    CAIRN_FIELD(type);
    CAIRN_FIELD_WITHIN(count, 0, INT32_MAX);
    CAIRN_FIELD(address);
}

template <Struct<PacketRing> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(version, 0, 2);
    CAIRN_FIELD_WITHIN(block_size, 1, 1 << 26);
    CAIRN_FIELD_WITHIN(block_count, 1, 1 << 26);
    CAIRN_FIELD_WITHIN(frame_size, 1, 1 << 26);
    CAIRN_FIELD_WITHIN(frame_count, 1, 1 << 26);
    CAIRN_FIELD(retire_ms);
    CAIRN_FIELD(private_size);
    CAIRN_FIELD(features);
    CAIRN_FIELD(reserve);
    CAIRN_FIELD(copy_threshold);
    CAIRN_FIELD(loss);
    CAIRN_FIELD_WITHIN(head, 0, 1 << 26);
    CAIRN_FIELD(full);
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
    CAIRN_FIELD(ring);
}

}  // namespace cairn::schema
