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

#include "common/schema/extra.h"
#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"
#include "resources/socket/capture_diag.h"

namespace cairn::capture {
namespace {

using nlohmann::json;

std::string interface_name(unsigned index) {
    char name[IF_NAMESIZE] = "";
    return ::if_indextoname(index, name) != nullptr ? name : "";
}

}  // namespace

Result<> describe_packet_socket(Table& table, const Description& found, schema::Object& object) {
    const int fd = found.fd();
    auto known = SockDiag().packet_socket(found.status.st_ino);
    if (!known) return std::unexpected(std::move(known.error()).in("is a packet socket"));
    if (known->ring)
        return fail_code(
            ExitCode::refused,
            "is a packet socket with a ring (PACKET_RX_RING, PACKET_TX_RING): what the kernel has "
            "written into it can't be put back; one that is read by recvmsg(2) can be saved");
    constexpr std::uint32_t with_program_from = 6;  // PACKET_FANOUT_CBPF, and _EBPF
    const auto fanout = static_cast<std::uint32_t>(socket_option<int>(fd, SOL_PACKET, PACKET_FANOUT));
    if (fanout != 0 && (fanout >> 16 & 0xff) >= with_program_from)
        return fail_code(ExitCode::refused,
                         "is a packet socket of a fanout group with a BPF program, which can't be read");
    object.identity = identity_of(found.status);
    sockaddr_ll own{};
    const std::string address = own_address(fd);
    std::memcpy(&own, address.data(), std::min(address.size(), sizeof own));
    json memberships = json::array();
    for (const auto& each : known->memberships)
        memberships.push_back({{"interface", interface_name(each.interface)},
                               {"type", each.type},
                               {"count", each.count},
                               {"address", schema::binary(each.address.data(), each.address.size())}});
    object.extra = schema::pack(
        {{"style", socket_option<int>(fd, SOL_SOCKET, SO_TYPE)},
         {"protocol", own.sll_protocol},  // in network order
         {"interface", own.sll_ifindex == 0 ? "" : interface_name(static_cast<unsigned>(own.sll_ifindex))},
         {"index", own.sll_ifindex},
         {"memberships", std::move(memberships)},
         {"fanout", fanout},
         {"options", socket_options_of(fd)}});
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0)
        table.note("{} is a packet socket with packets waiting: they are left out", found.who());
    return {};
}

}  // namespace cairn::capture
