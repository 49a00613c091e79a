// Packet sockets (packet(7)) made again.
#include "resources/socket/restore.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>

#include <cstring>

#include "resources/namespace/restore.h"
#include "resources/packet/restore_ring.h"
#include "resources/restore/opening.h"

namespace cairn::restart {

namespace {

// The interface of that name, whatever its number is now.
Result<int> interface_of(const std::string& name) {
    if (name.empty()) return 0;
    if (const unsigned index = ::if_nametoindex(name.c_str()); index != 0) return static_cast<int>(index);
    return fail_code(ExitCode::refused, "packet socket: there is no network interface {} here", name);
}

void join_memberships(Opening& opening, int fd, const schema::Packet& saved) {
    for (const schema::PacketMembership& each : saved.memberships) {
        packet_mreq request{};
        request.mr_ifindex = interface_of(each.interface).value_or(-1);
        request.mr_type = each.type;
        request.mr_alen =
            static_cast<unsigned short>(std::min(each.address.size(), sizeof request.mr_address));
        std::memcpy(request.mr_address, each.address.data(), request.mr_alen);
        for (int left = each.count; left > 0; --left)
            if (::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request) != 0) {
                opening.note("a packet socket can't be given its membership of {} again: {}", each.interface,
                             std::strerror(errno));
                break;
            }
    }
}

// In its network. It gets packets from the moment on at which it has a protocol, and should get none before
// all the rest of it is there: until then it hears nothing.
Result<Fd> open_packets_in_network(Opening& opening, const schema::Object& object,
                                   const schema::Packet& saved) {
    Fd fd(::socket(AF_PACKET, saved.style | SOCK_CLOEXEC, 0));
    if (!fd && (errno == EPERM || errno == EACCES))
        return fail_code(ExitCode::refused,
                         "packet socket: only root may have one (CAP_NET_RAW): restart as root");
    if (!fd) return fail_errno("packet socket");
    CHECK_OK(saved.ring ? make_ring(fd.get(), object, *saved.ring) : hear_nothing(fd.get()));
    set_socket_options(fd.get(), saved.options, schema::OptionMoment::before_bind);
    const int interface = TRY(interface_of(saved.interface));
    sockaddr_ll own{};
    own.sll_family = AF_PACKET;
    own.sll_protocol = saved.protocol;
    own.sll_ifindex = interface;
    if (interface != saved.index)
        opening.note("a packet socket's interface {} has the number {} now", saved.interface, interface);
    if (own.sll_protocol != 0 || own.sll_ifindex != 0 || saved.ring)
        if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
            return fail_errno("packet socket: bind to {}", saved.interface);
    join_memberships(opening, fd.get(), saved);
    set_buffers(fd.get(), saved.options);
    const int fanout = static_cast<int>(saved.fanout);
    if (fanout != 0 && ::setsockopt(fd.get(), SOL_PACKET, PACKET_FANOUT, &fanout, sizeof fanout) != 0)
        return fail_errno("packet socket: fanout group {}", fanout & 0xffff);
    if (saved.options.filter.empty() &&
        ::setsockopt(fd.get(), SOL_SOCKET, SO_DETACH_FILTER, &fanout, sizeof fanout) != 0)
        return fail_errno("packet socket: SO_DETACH_FILTER");
    set_socket_options(fd.get(), saved.options, schema::OptionMoment::last);
    return fd;
}

}  // namespace

Result<Fd> open_packet_socket(Opening& opening, const schema::Object& object, const schema::Packet& saved) {
    Result<Fd> made = Fd();
    CHECK_OK(in_own_space(opening, object.network, [&]() -> Result<> {
        made = open_packets_in_network(opening, object, saved);
        return {};
    }));
    return made;
}

}  // namespace cairn::restart
