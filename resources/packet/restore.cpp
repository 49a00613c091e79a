#include "resources/socket/restore.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>

#include <cstring>

#include "resources/restore/other.h"

namespace cairn::restart {

using nlohmann::json;

namespace {

// The interface of that name, whatever its number is now.
Result<int> interface_of(const json& extra) {
    const std::string name = schema::text(extra, "interface");
    if (name.empty()) return 0;
    if (const unsigned index = ::if_nametoindex(name.c_str()); index != 0) return static_cast<int>(index);
    return fail_code(ExitCode::refused, "packet socket: there is no network interface {} here", name);
}

void join_memberships(Opening& opening, int fd, const json& extra) {
    const auto all = extra.find("memberships");
    if (all == extra.end() || !all->is_array()) return;
    for (const json& each : *all) {
        packet_mreq request{};
        auto interface = interface_of(each);
        const std::string address = schema::bytes(each, "address");
        request.mr_ifindex = interface.value_or(-1);
        request.mr_type = schema::number<unsigned short>(each, "type");
        request.mr_alen = static_cast<unsigned short>(std::min(address.size(), sizeof request.mr_address));
        std::memcpy(request.mr_address, address.data(), request.mr_alen);
        for (int left = schema::number<int>(each, "count"); left > 0; --left)
            if (::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request) != 0) {
                opening.note("a packet socket can't be given its membership of {} again: {}",
                             schema::text(each, "interface"), std::strerror(errno));
                break;
            }
    }
}

}  // namespace

// It gets packets from the moment on at which it has a protocol: its filter must be there by then.
Result<Fd> open_packet_socket(Opening& opening, const schema::Object& object) {
    auto extra = TRY(schema::unpack(object.extra));
    Fd fd(::socket(AF_PACKET, schema::number<int>(extra, "style") | SOCK_CLOEXEC, 0));
    if (!fd && (errno == EPERM || errno == EACCES))
        return fail_code(ExitCode::refused,
                         "packet socket: only root may have one (CAP_NET_RAW): restart as root");
    if (!fd) return fail_errno("packet socket");
    set_socket_options(fd.get(), extra, schema::OptionMoment::before_bind);
    set_socket_options(fd.get(), extra, schema::OptionMoment::last);
    set_buffers(fd.get(), extra);
    join_memberships(opening, fd.get(), extra);
    auto interface = TRY(interface_of(extra));
    sockaddr_ll own{};
    own.sll_family = AF_PACKET;
    own.sll_protocol = schema::number<unsigned short>(extra, "protocol");
    own.sll_ifindex = interface;
    if (interface != schema::number<int>(extra, "index"))
        opening.note("a packet socket's interface {} has the number {} now", schema::text(extra, "interface"),
                     interface);
    if (own.sll_protocol != 0 || own.sll_ifindex != 0)
        if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
            return fail_errno("packet socket: bind to {}", schema::text(extra, "interface"));
    const int fanout = static_cast<int>(schema::number<std::uint32_t>(extra, "fanout"));
    if (fanout != 0 && ::setsockopt(fd.get(), SOL_PACKET, PACKET_FANOUT, &fanout, sizeof fanout) != 0)
        return fail_errno("packet socket: fanout group {}", fanout & 0xffff);
    return fd;
}

}  // namespace cairn::restart
