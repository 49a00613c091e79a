// What a socket tells by calls.
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "witness/descriptors.h"

namespace cairn::witness {
namespace {

struct Level {
    int number;
    const char* name;
    int last;  // options above it would be netfilter's and other families'
    std::vector<int>
        untouched;  // reading them changes something, takes something away, or makes a descriptor
};

// socket(7), ip(7), tcp(7), udp(7), ipv6(7), raw(7), packet(7), netlink(7), vsock(7), and the kernel's
// headers for the others.
const std::vector<Level>& levels() {
    static const std::vector<Level> all{
        // SO_ERROR (4) and SO_PEERPIDFD (77).
        {SOL_SOCKET, "socket", 100, {4, 77}},
        {IPPROTO_IP, "ip", 63, {}},
        // TCP_SAVED_SYN (28) is given once, TCP_ZEROCOPY_RECEIVE (35) receives.
        {IPPROTO_TCP, "tcp", 60, {28, 35}},
        {IPPROTO_UDP, "udp", 110, {}},
        {IPPROTO_IPV6, "ipv6", 63, {}},
        {IPPROTO_IPV6, "ipv6", 80, {64, 65, 66, 67, 68, 69}},
        {IPPROTO_ICMPV6, "icmpv6", 8, {}},
        {IPPROTO_UDPLITE, "udplite", 16, {}},
        {IPPROTO_RAW, "raw", 8, {}},
        // PACKET_STATISTICS (6) counts anew.
        {263, "packet", 30, {6}},
        {270, "netlink", 16, {}},
        {284, "mptcp", 8, {}},
        {AF_VSOCK, "vsock", 10, {}},
    };
    return all;
}

void see_address(Facts& facts, const std::string& name, const Fd& socket,
                 int (*ask)(int, sockaddr*, socklen_t*)) {
    std::array<unsigned char, sizeof(sockaddr_storage)> address{};
    socklen_t size = address.size();
    if (ask(socket.get(), reinterpret_cast<sockaddr*>(address.data()), &size) == 0)
        facts.put_bytes(name, std::span(address).first(std::min<std::size_t>(size, address.size())));
    else
        facts.put_errno(name, errno);
}

int number_of(const Fd& socket, int option) {
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(socket.get(), SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

void see_option(Facts& facts, const std::string& prefix, const Fd& socket, const Level& level, int option) {
    std::array<unsigned char, 512> value{};
    socklen_t size = value.size();
    std::string name = fmt::format("{}/{}/{}", prefix, level.name, option);
    if (level.number == SOL_SOCKET && option == SO_PEERCRED && number_of(socket, SO_ACCEPTCONN) == 1)
        name += " of a listening one";
    if (getsockopt(socket.get(), level.number, option, value.data(), &size) == 0)
        facts.put_bytes(name, std::span(value).first(std::min<std::size_t>(size, value.size())));
    else if (errno != ENOPROTOOPT && errno != EOPNOTSUPP)
        facts.put_errno(name, errno);
}

// What waits to be read, left in its place. One message, or what a stream gives at once.
void see_waiting(Facts& facts, const std::string& prefix, const Fd& socket) {
    if (number_of(socket, SO_PEEK_OFF) >= 0) return;  // a look would move it
    // Whoever receives is told a pending error, and it is gone.
    pollfd asked{socket.get(), POLLIN, 0};
    if (poll(&asked, 1, 0) < 0 || (asked.revents & POLLERR) != 0) return;
    // An empty message that was looked at is passed over by whoever looks by SO_PEEK_OFF later (skb->peeked),
    // a capture for instance.
    int size = 0;
    const int type = number_of(socket, SO_TYPE);
    if (type != SOCK_STREAM && (type != SOCK_DGRAM || ioctl(socket.get(), FIONREAD, &size) != 0 || size == 0))
        return;
    std::vector<unsigned char> bytes(1 << 20);
    const ssize_t count = recv(socket.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
    if (count >= 0) {
        facts.put(prefix + "/waiting/size", static_cast<std::int64_t>(count));
        facts.put_bytes(prefix + "/waiting/bytes",
                        std::span(bytes).first(std::min(static_cast<std::size_t>(count), bytes.size())));
    }
}

// So that rules can speak of sockets of one kind.
std::string kind_of(const Fd& socket) {
    if (number_of(socket, SO_DOMAIN) == AF_VSOCK) return "vsock";
    switch (number_of(socket, SO_PROTOCOL)) {
        case IPPROTO_TCP:
            return "tcp";
        case IPPROTO_MPTCP:
            return "mptcp";
        default:
            return "other";
    }
}

}  // namespace

void see_socket(Facts& facts, const std::string& of_descriptor, const Fd& socket) {
    int pending = 0;
    const std::string prefix = fmt::format("{}/{} socket", of_descriptor, kind_of(socket));
    see_address(facts, prefix + "/name", socket, &getsockname);
    see_address(facts, prefix + "/peer", socket, &getpeername);
    if (ioctl(socket.get(), FIONREAD, &pending) == 0) facts.put(prefix + "/ioctl/FIONREAD", pending);
    for (const Level& level : levels())
        for (int option = 0; option <= level.last; ++option)
            if (std::ranges::find(level.untouched, option) == level.untouched.end())
                see_option(facts, prefix, socket, level, option);
    if (ioctl(socket.get(), SIOCOUTQ, &pending) == 0) facts.put(prefix + "/ioctl/SIOCOUTQ", pending);
    if (ioctl(socket.get(), SIOCATMARK, &pending) == 0) facts.put(prefix + "/ioctl/SIOCATMARK", pending);
    see_waiting(facts, prefix, socket);
}

}  // namespace cairn::witness
