// Packet sockets (packet(7)): protocol, interface, filter, memberships, fanout group. What waits in them is
// the network's, and copies of it: left out, as with raw sockets.
#include "resources/socket/capture.h"

#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/packet_diag.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <poll.h>

#include <cstring>

#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"
#include "resources/namespace/capture_own.h"
#include "resources/packet/capture_ring.h"
#include "resources/socket/capture_diag.h"

namespace cairn::capture {
namespace {

std::string interface_name(unsigned index) {
    char name[IF_NAMESIZE] = "";
    return ::if_indextoname(index, name) != nullptr ? name : "";
}

// In its network.
Result<> describe_packets_in_network(Table& table, const Description& found, schema::Object& object) {
    const int fd = found.fd();
    auto known = SockDiag().packet_socket(found.status.st_ino);
    if (!known) return std::unexpected(std::move(known.error()).in("is a packet socket"));
    if (known->transmit_ring)
        return fail_code(
            ExitCode::refused,
            "is a packet socket with a ring for sending (PACKET_TX_RING): how far the kernel has "
            "sent can't be read");
    constexpr std::uint32_t with_program_from = 6;  // PACKET_FANOUT_CBPF, and _EBPF
    const auto fanout = static_cast<std::uint32_t>(socket_option<int>(fd, SOL_PACKET, PACKET_FANOUT));
    if (fanout != 0 && (fanout >> 16 & 0xff) >= with_program_from)
        return fail_code(ExitCode::refused,
                         "is a packet socket of a fanout group with a BPF program, which can't be read");
    object.identity = identity_of(found.status);
    sockaddr_ll own{};
    const std::string address = own_address(fd);
    std::memcpy(&own, address.data(), std::min(address.size(), sizeof own));
    auto& saved = object.what.emplace<schema::Packet>();
    saved.style = socket_option<int>(fd, SOL_SOCKET, SO_TYPE);
    saved.protocol = own.sll_protocol;
    if (own.sll_ifindex != 0) saved.interface = interface_name(static_cast<unsigned>(own.sll_ifindex));
    saved.index = own.sll_ifindex;
    for (const auto& each : known->memberships)
        saved.memberships.push_back({.interface = interface_name(each.interface),
                                     .type = static_cast<std::uint16_t>(each.type),
                                     .count = static_cast<std::int32_t>(each.count),
                                     .address = schema::to_bytes(each.address)});
    saved.fanout = fanout;
    saved.options = socket_options_of(fd);
    if (known->receive_ring) CHECK_OK(describe_ring(*known, fd, object));
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0)
        table.note("{} is a packet socket with packets waiting: they are left out", found.who());
    return {};
}

}  // namespace

bool is_packet_socket(const Looked& it) {
    return it.domain == AF_PACKET;
}

Result<> describe_packet_socket(Table& table, const Description& found, schema::Object& object) {
    return in_own_space(table, object.network,
                        [&] { return describe_packets_in_network(table, found, object); });
}

Result<std::int64_t> mapped_packet_ring(const Table& table, const Holder& holder, const Mapping& mapping) {
    const auto known = table.known.find({mapping.device, mapping.inode});
    if (known != table.known.end()) {
        const schema::Object& object = table.objects[static_cast<std::size_t>(known->second.front())];
        const auto* socket = object.get<schema::Packet>();
        const std::uint64_t size = socket == nullptr || !socket->ring ? 0 : ring_size(*socket->ring);
        if (mapping.end - mapping.start == size && mapping.offset == 0) return object.id;
    }
    return fail_code(
        ExitCode::refused,
        "{}: memory {:#x}-{:#x} is a part of a socket's, or of one of which it has no descriptor: "
        "this can't be saved",
        name_of(holder), mapping.start, mapping.end);
}

}  // namespace cairn::capture
