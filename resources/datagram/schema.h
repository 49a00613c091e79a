// What an image says of a UDP, UDP-Lite or raw socket. The datagrams that wait in it are in
// Object::contents.
#pragma once

#include <netinet/in.h>

#include <string>
#include <vector>

#include "common/schema/field.h"
#include "resources/socket/schema.h"

namespace cairn::schema {

struct MulticastGroup {
    std::uint32_t interface = 0;
    std::string interface_name;
    Bytes filter;  // struct group_filter, the group's address in it
};

struct Datagram {
    static constexpr std::string_view kind = "datagram";
    std::int32_t domain = AF_INET, style = SOCK_DGRAM, protocol = 0;
    Bytes own, peer_name;
    std::int32_t reuse_address = 0;
    SocketOptions options;
    std::vector<MulticastGroup> groups, groups_v4;  // groups_v4: IPv4 groups of an IPv6 socket
    std::vector<Bytes> senders;                     // addresses, one for each element of Object::contents

    // One at an address that another one speaks from.
    [[nodiscard]] bool waits_for_others(bool) const { return true; }
};

// UDPLITE_SEND_CSCOV and UDPLITE_RECV_CSCOV of udplite(7), which no header has.
inline constexpr int udplite_send_coverage = 10, udplite_receive_coverage = 11;

// UDP-Lite (RFC 3828): all that UDP has, and how many bytes of a datagram, from its header on, a checksum
// covers: of what is sent, and at least of what is received. 0: all of it, or not set.
struct UdpLite {
    static constexpr std::string_view kind = "udplite";
    Datagram socket;
    std::int32_t send_coverage = 0, receive_coverage = 0;

    [[nodiscard]] bool waits_for_others(bool has_peer) const { return socket.waits_for_others(has_peer); }
};

// For words.
[[nodiscard]] inline const char* name_of_protocol(const Datagram& socket) {
    return socket.protocol == IPPROTO_UDPLITE ? "UDP-Lite" : "UDP";
}

template <Struct<MulticastGroup> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(interface);
    CAIRN_FIELD(interface_name);
    CAIRN_FIELD(filter);
}

template <Struct<Datagram> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(domain, AF_INET, AF_INET6);
    CAIRN_FIELD(style);
    CAIRN_FIELD(protocol);
    CAIRN_FIELD(own);
    CAIRN_FIELD(peer_name);
    CAIRN_FIELD(reuse_address);
    CAIRN_FIELD(options);
    CAIRN_FIELD(groups);
    CAIRN_FIELD(groups_v4);
    CAIRN_FIELD(senders);
}

template <Struct<UdpLite> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(socket);
    CAIRN_FIELD_WITHIN(send_coverage, 0, UINT16_MAX);
    CAIRN_FIELD_WITHIN(receive_coverage, 0, UINT16_MAX);
}

}  // namespace cairn::schema
