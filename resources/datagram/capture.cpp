// UDP, UDP-Lite and raw sockets: what they are bound and connected to, which multicast groups they have
// joined, what waits in them.
#include "resources/socket/capture.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"
#include "resources/namespace/capture_own.h"
#include "resources/socket/capture_calls.h"

namespace cairn::capture {
namespace {

struct Group {
    std::uint32_t interface = 0;
    sockaddr_storage address{};
};

// Every group that anybody of this network namespace has joined: proc(5), /proc/net/igmp and igmp6.
std::vector<Group> joined_by_anybody(int domain) {
    std::vector<Group> groups;
    std::string line;
    if (domain == AF_INET) {
        std::ifstream file("/proc/net/igmp");
        std::uint32_t interface = 0;
        while (std::getline(file, line)) {
            std::istringstream words(line);
            if (line.starts_with('\t')) {
                std::string number;
                words >> number;
                Group group{interface, {}};
                sockaddr_in name{};
                name.sin_family = AF_INET;
                name.sin_addr.s_addr = static_cast<std::uint32_t>(std::strtoul(number.c_str(), nullptr, 16));
                std::memcpy(&group.address, &name, sizeof name);
                groups.push_back(group);
            } else {
                words >> interface;
            }
        }
        return groups;
    }
    std::ifstream file("/proc/net/igmp6");
    while (std::getline(file, line)) {
        std::istringstream words(line);
        Group group;
        std::string name_of_interface, digits;
        words >> group.interface >> name_of_interface >> digits;
        sockaddr_in6 name{};
        name.sin6_family = AF_INET6;
        for (std::size_t i = 0; i < sizeof name.sin6_addr && 2 * i + 1 < digits.size(); ++i)
            name.sin6_addr.s6_addr[i] =
                static_cast<std::uint8_t>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
        std::memcpy(&group.address, &name, sizeof name);
        groups.push_back(group);
    }
    return groups;
}

// The kernel doesn't list what a socket has joined, but says of each group whether it has (MCAST_MSFILTER,
// Linux 2.6).
std::vector<schema::MulticastGroup> memberships(int fd, int domain) {
    std::vector<schema::MulticastGroup> list;
    const int level = domain == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
    for (const Group& group : joined_by_anybody(domain)) {
        constexpr std::size_t most = 64;  // sources
        std::vector<char> room(GROUP_FILTER_SIZE(most), 0);
        group_filter filter{};
        filter.gf_interface = group.interface;
        filter.gf_group = group.address;
        filter.gf_numsrc = most;
        std::memcpy(room.data(), &filter, sizeof filter);
        auto length = static_cast<socklen_t>(room.size());
        if (::getsockopt(fd, level, MCAST_MSFILTER, room.data(), &length) != 0) continue;
        std::memcpy(&filter, room.data(), sizeof filter);
        room.resize(GROUP_FILTER_SIZE(std::min<std::size_t>(filter.gf_numsrc, most)));
        char name[IF_NAMESIZE] = "";
        ::if_indextoname(group.interface, name);
        list.push_back({group.interface, name, {room.begin(), room.end()}});
    }
    return list;
}

// It is an address of this host's, if one was chosen.
void keep_multicast_interface(const Table& table, schema::SocketOptions& options) {
    auto* bytes = schema::find_option<schema::Bytes>(options, IPPROTO_IP, IP_MULTICAST_IF);
    sockaddr_in name{};
    if (bytes == nullptr || bytes->size() != sizeof name.sin_addr) return;
    name.sin_family = AF_INET;
    std::memcpy(&name.sin_addr, bytes->data(), sizeof name.sin_addr);
    const std::string known =
        as_known(table.options.region, std::string(reinterpret_cast<const char*>(&name), sizeof name));
    std::memcpy(&name, known.data(), sizeof name);
    std::memcpy(bytes->data(), &name.sin_addr, sizeof name.sin_addr);
}

bool is_of_this_host(const std::string& address) {
    sockaddr_storage name{};
    std::memcpy(&name, address.data(), std::min(address.size(), sizeof name));
    if (name.ss_family == AF_INET)
        reinterpret_cast<sockaddr_in*>(&name)->sin_port = 0;
    else
        reinterpret_cast<sockaddr_in6*>(&name)->sin6_port = 0;
    const Fd fd(::socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), static_cast<socklen_t>(address.size())) == 0;
}

// All but what UDP-Lite has besides. `saved` is part of the object.
Result<> describe_datagrams(Table& table, const Description& found, schema::Object& object,
                            schema::Datagram& saved) {
    const int fd = found.fd(), domain = socket_option<int>(fd, SOL_SOCKET, SO_DOMAIN);
    const int style = socket_option<int>(fd, SOL_SOCKET, SO_TYPE);
    object.identity = identity_of(found.status);
    const std::string own = own_address(fd), peer = peer_address(fd);
    saved.domain = domain;
    saved.style = style;
    saved.protocol = socket_option<int>(fd, SOL_SOCKET, SO_PROTOCOL);
    saved.own = schema::to_bytes(as_known(table.options.region, own));
    saved.peer_name = schema::to_bytes(as_known(table.options.region, peer));
    saved.reuse_address = socket_option<int>(fd, SOL_SOCKET, SO_REUSEADDR);
    saved.options = socket_options_of(fd);
    // Ports of UDP-Lite are none of UDP's: who calls one doesn't reach the other.
    const std::string way = saved.protocol == IPPROTO_UDPLITE ? "udplite" : "udp";
    auto& calls = table.of<CallsFound>();
    if (!peer.empty() && !is_of_this_host(peer)) {
        OutgoingCall call{way + plain_address(peer), -1,
                          fmt::format("{} is a {} socket, {} connected to {}", found.who(),
                                      name_of_protocol(saved), address_words(own), address_words(peer)),
                          "a restart connects it again"};
        // To the outside, unless it is a member's on another host.
        if (table.options.meet && object.network < 0)
            calls.calls.push_back(std::move(call));
        else
            table.external(call.what, call.fate);
    }
    if (table.options.meet && object.network < 0 && style == SOCK_DGRAM)
        for (const std::string& address : reachable_at(fd, own)) calls.reached.push_back({way + address, -1});
    keep_multicast_interface(table, saved.options);
    saved.groups = memberships(fd, domain);
    if (domain == AF_INET6) saved.groups_v4 = memberships(fd, AF_INET);
    // A raw socket gets copies of what the network brings, and shows one of them only.
    pollfd polled{fd, POLLIN, 0};
    if (style == SOCK_RAW && ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0)
        table.note("{} is a raw socket with packets waiting: they are left out", found.who());
    if (style != SOCK_RAW) {
        auto messages = TRY(look_into(fd, domain, false));
        for (Waiting& message : messages) {
            saved.senders.push_back(schema::to_bytes(as_known(table.options.region, message.from)));
            object.contents.push_back(std::move(message.data));
        }
    }
    return {};
}

}  // namespace

bool is_datagram_socket(const Looked& it) {
    return it.internet() && (it.style == SOCK_DGRAM || it.style == SOCK_RAW);
}

Result<> describe_datagram_socket(Table& table, const Description& found, schema::Object& object) {
    auto& saved = object.what.emplace<schema::Datagram>();
    return in_own_space(table, object.network,
                        [&] { return describe_datagrams(table, found, object, saved); });
}

bool is_udplite_socket(const Looked& it) {
    return is_datagram_socket(it) && it.style == SOCK_DGRAM && it.protocol == IPPROTO_UDPLITE;
}

// Linux 2.6.20 to 7.0.
Result<> describe_udplite_socket(Table& table, const Description& found, schema::Object& object) {
    auto& saved = object.what.emplace<schema::UdpLite>();
    CHECK_OK(in_own_space(table, object.network,
                          [&] { return describe_datagrams(table, found, object, saved.socket); }));
    const int fd = found.fd();
    saved.send_coverage = socket_option<int>(fd, IPPROTO_UDPLITE, schema::udplite_send_coverage);
    saved.receive_coverage = socket_option<int>(fd, IPPROTO_UDPLITE, schema::udplite_receive_coverage);
    // Where it was never set, datagrams of any coverage come in. Where it was set to 0, those only that are
    // covered to their end (udp_queue_rcv_one_skb() of net/ipv4/udp.c); no call tells the one from the other.
    if (saved.receive_coverage == 0)
        table.note(
            "{} is a UDP-Lite socket: the kernel doesn't tell whether its receive coverage "
            "(UDPLITE_RECV_CSCOV) was set to 0, after a restart it is as if it had never been set",
            found.who());
    return {};
}

}  // namespace cairn::capture
