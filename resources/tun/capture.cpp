// TUN/TAP: a description of /dev/net/tun that TUNSETIFF has attached to an interface. fdinfo names the
// interface (since Linux 3.19), ioctls on a duplicate tell of the queue, rtnetlink of the interface. No
// kernel tells of TUNSETTXFILTER, TUNSETSTEERINGEBPF (which chooses among several queues) and
// TUNSETFILTEREBPF.
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "resources/capture/table.h"
#include "resources/namespace/capture_own.h"
#include "resources/tun/capture_link.h"

namespace cairn::capture {
namespace {

constexpr unsigned misc_devices = 10, tun_device = 200;  // Documentation/admin-guide/devices.txt

// TUNSETIFF's flags that say how the queue works, but for the one that shows itself elsewhere: to TUNGETIFF,
// IFF_NO_PI is the same bit as IFF_NOFILTER.
constexpr int kept_features = IFF_VNET_HDR | IFF_MULTI_QUEUE | IFF_NAPI | IFF_NAPI_FRAGS | IFF_ONE_QUEUE;
constexpr std::uint32_t kept_interface_flags = IFF_UP | IFF_DEBUG | IFF_NOTRAILERS | IFF_NOARP | IFF_PROMISC |
                                               IFF_ALLMULTI | IFF_MULTICAST | IFF_PORTSEL | IFF_AUTOMEDIA |
                                               IFF_DYNAMIC;

Result<int> ask_tun(int fd, unsigned long what, std::string_view name) {
    int answer = 0;
    if (::ioctl(fd, what, &answer) != 0) return fail_errno("is a TUN/TAP queue: {}", name);
    return answer;
}

// A name says nothing where the interface, or the program after it was opened, has gone to another network
// namespace. The kernel shows which one it is in to whoever may administer that (since Linux 5.2).
bool is_in_another_network(int fd) {
    const Fd network(::ioctl(fd, TUNGETDEVNETNS));
    struct stat its {
    }, own{};
    return network && ::fstat(network.get(), &its) == 0 && ::stat("/proc/self/ns/net", &own) == 0 &&
           inode_of(its) != inode_of(own);
}

// A filter of classic BPF, which TAP interfaces may have. The kernel shows its length and the address at
// which it was in the program's memory, and goes on showing that when it has been taken off; that there is
// none can only be seen of a queue that has IFF_NO_PI not set.
bool may_have_filter(int fd, const ifreq& queue, bool packet_info) {
    sock_fprog filter{};
    if (::ioctl(fd, TUNGETFILTER, &filter) != 0 || filter.len == 0) return false;
    return !packet_info || (queue.ifr_flags & IFF_NOFILTER) == 0;
}

Result<TunLink> tun_link_of(const Description& found, const std::string& name, const ifreq& queue) {
    auto link = TRY(find_tun_link(name));
    if (!link || !link->is_tun || is_in_another_network(found.fd()))
        return fail_code(ExitCode::refused,
                         "is attached to a TUN/TAP interface {} of another network namespace, which can't be "
                         "saved; close it before a checkpoint",
                         name);
    if ((queue.ifr_flags & IFF_DETACH_QUEUE) != 0)
        return fail_code(
            ExitCode::refused,
            "is a queue of the TAP interface {} that is switched off (TUNSETQUEUE): this can't be "
            "saved; close it, or switch it on, before a checkpoint",
            name);
    if (link->queues + link->queues_off > 1)
        return fail_code(
            ExitCode::refused,
            "is one of {} queues of the TUN/TAP interface {} (IFF_MULTI_QUEUE), of which only one "
            "can be saved; close the others before a checkpoint",
            link->queues + link->queues_off, name);
    if (may_have_filter(found.fd(), queue, link->packet_info))
        return fail_code(
            ExitCode::refused,
            "is a queue of the TAP interface {} with a filter (TUNATTACHFILTER), or that had one, "
            "which can't be read; close it before a checkpoint",
            name);
    return *link;
}

// What a restart doesn't give to an interface that it has to make again.
Result<> note_surroundings(Table& table, const Description& found, const std::string& name,
                           const TunLink& link) {
    char master[IF_NAMESIZE] = "";
    if (link.master != 0 && ::if_indextoname(static_cast<unsigned>(link.master), master) != nullptr)
        table.note(
            "{} made the interface {}, which is a port of {}: after a restart it is not, until somebody "
            "adds it (ip link set {} master {})",
            found.who(), name, master, name, master);
    if (const int routes = TRY(count_tun_routes(link.index)); routes != 0)
        table.note(
            "{} made the interface {}, through which {} {} been set: after a restart it has none, until "
            "somebody sets them again",
            found.who(), name, routes, routes == 1 ? "route has" : "routes have");
    if (link.program)
        table.note("{} made the interface {}, which has an XDP program: after a restart it has none",
                   found.who(), name);
    return {};
}

// In the network that it is of.
Result<> describe_tun_in_network(Table& table, const Description& found, schema::Object& object) {
    const int fd = found.fd();
    ifreq queue{};
    if (::ioctl(fd, TUNGETIFF, &queue) != 0) return fail_errno("is a TUN/TAP queue: TUNGETIFF");
    const std::string name = queue.ifr_name;
    const TunLink link = TRY(tun_link_of(found, name, queue));
    object.path = found.link;
    auto& saved = object.what.emplace<schema::Tun>();
    saved.name = name;
    saved.mode = (queue.ifr_flags & IFF_TAP) != 0 ? schema::TunMode::tap : schema::TunMode::tun;
    saved.packet_info = link.packet_info;
    saved.features = static_cast<std::uint32_t>(queue.ifr_flags & kept_features);
    saved.persistent = link.persistent;
    saved.owner = link.owner;
    saved.group = link.group;
    saved.header_size = TRY(ask_tun(fd, TUNGETVNETHDRSZ, "TUNGETVNETHDRSZ"));
    saved.send_buffer = TRY(ask_tun(fd, TUNGETSNDBUF, "TUNGETSNDBUF"));
    saved.little_endian = TRY(ask_tun(fd, TUNGETVNETLE, "TUNGETVNETLE")) != 0;
    // Most kernels are built without (CONFIG_TUN_VNET_CROSS_LE), and then nobody can have set it.
    saved.big_endian = ask_tun(fd, TUNGETVNETBE, "TUNGETVNETBE").value_or(0) != 0;
    saved.offloads = TRY(tun_offloads(name));
    saved.index = link.index;
    saved.link_type = link.type;
    saved.hardware = link.hardware;
    saved.mtu = link.mtu;
    saved.queue_length = link.queue_length;
    saved.interface_flags = link.flags & kept_interface_flags;
    saved.carrier = link.carrier;
    saved.addresses = TRY(tun_addresses(link.index));
    if (!link.persistent && object.network < 0) CHECK_OK(note_surroundings(table, found, name, link));
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0)
        table.note("{} is a TUN/TAP queue with packets waiting: they are left out", found.who());
    return {};
}

}  // namespace

bool is_tun(const Looked& it) {
    return it.opened(S_IFCHR) && it.is_device(misc_devices, tun_device) &&
           !info_field(it.found.info, "iff").value_or("").empty();
}

Result<> describe_tun(Table& table, const Description& found, schema::Object& object) {
    object.network = TRY(own_network_of(table, found));
    return in_own_space(table, object.network, [&] { return describe_tun_in_network(table, found, object); });
}

}  // namespace cairn::capture
