// What a checkpoint asks the kernel about sockets, and what a restart needs to make connections anew.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "cli/doctor/probe.h"
#include "common/fd.h"

namespace cairn::doctor {
namespace {

template <class Body>
Observation ask_diag(const Body& body, const char* module_name) {
    const Fd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink) return failed("socket (NETLINK_SOCK_DIAG)");
    struct {
        nlmsghdr header{};
        Body body{};
    } request;
    request.header = {sizeof request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0};
    request.body = body;
    if (::send(netlink.get(), &request, sizeof request, 0) < 0) return failed("sock_diag");
    alignas(nlmsghdr) std::array<char, 32768> answer{};
    const ssize_t got = ::recv(netlink.get(), answer.data(), answer.size(), 0);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return failed("sock_diag");
    nlmsghdr header{};
    std::memcpy(&header, answer.data(), sizeof header);
    if (header.nlmsg_type != NLMSG_ERROR) return worked("the kernel tells of them (sock_diag)");
    nlmsgerr error{};
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
    auto seen = failed("sock_diag", -error.error);
    if (error.error == -ENOENT) seen.said = fmt::format("the kernel has no {}", module_name);
    return seen;
}

Observation unix_sockets(const Setting&) {
    unix_diag_req body{};
    body.sdiag_family = AF_UNIX;
    body.udiag_states = ~0U;
    return ask_diag(body, "unix_diag");
}

Observation tcp_sockets(const Setting&) {
    inet_diag_req_v2 body{};
    body.sdiag_family = AF_INET;
    body.sdiag_protocol = IPPROTO_TCP;
    body.idiag_states = ~0U;
    return ask_diag(body, "tcp_diag");
}

Observation connect_loopback(const Setting&) {
    const Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!server || !client) return failed("socket (AF_INET)");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (::bind(server.get(), name, size) != 0) return failed("bind to 127.0.0.1");
    if (::listen(server.get(), 1) != 0) return failed("listen");
    if (::getsockname(server.get(), name, &size) != 0) return failed("getsockname");
    if (::connect(client.get(), name, size) != 0 && errno != EINPROGRESS)
        return failed("connect to 127.0.0.1");
    pollfd waiting{server.get(), POLLIN, 0};
    constexpr int patience_ms = 800;
    if (::poll(&waiting, 1, patience_ms) != 1) return failed("connect to 127.0.0.1", ETIMEDOUT);
    return worked("a connection to 127.0.0.1 is made");
}

Observation repair(const Setting&) {
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return failed("socket (AF_INET)");
    const int on = 1;
    if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0) return failed("TCP_REPAIR");
    return worked("queues are looked into where they are (TCP_REPAIR)");
}

Observation port_range(const Setting&) {
    constexpr int ip_local_port_range = 51;
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return failed("socket (AF_INET)");
    const std::uint32_t range = 40000U << 16 | 40000U;
    if (::setsockopt(socket.get(), IPPROTO_IP, ip_local_port_range, &range, sizeof range) != 0)
        return failed("IP_LOCAL_PORT_RANGE");
    return worked();
}

Observation peer_pidfd(const Setting&) {
    constexpr int so_peerpidfd = 77;
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return failed("socketpair");
    const Fd one(ends[0]), two(ends[1]);
    int number = -1;
    socklen_t size = sizeof number;
    if (::getsockopt(one.get(), SOL_SOCKET, so_peerpidfd, &number, &size) != 0) return failed("SO_PEERPIDFD");
    ::close(number);
    return worked();
}

constexpr std::array probes_of_sockets{
    Probe{Group::checkpoint, "sockets.unix", unix_sockets, State::missing, false,
          "programs with Unix sockets can't be saved",
          "as root: modprobe unix_diag; if there is no such module: a kernel with CONFIG_UNIX_DIAG"},
    Probe{Group::checkpoint, "sockets.tcp", tcp_sockets, State::missing, false,
          "programs with TCP sockets can't be saved",
          "as root: modprobe tcp_diag; if there is no such module: a kernel with CONFIG_INET_DIAG"},
    Probe{Group::checkpoint, "tcp_repair", repair, State::note, false,
          "what is under way in a TCP connection is moved on to the receiver, to be seen there; between "
          "hosts too",
          ""},
    Probe{Group::checkpoint, "peer_pidfd", peer_pidfd, State::note, false,
          "members that become other users are told apart by their process id alone", "a kernel from 6.5 on"},
    Probe{Group::restart, "loopback", connect_loopback, State::missing, false,
          "TCP connections between programs can't be brought back", "as root: ip link set lo up"},
    Probe{Group::restart, "port_range", port_range, State::note, false,
          "a port that a finished connection still holds is waited for, a minute at most",
          "a kernel from 6.3 on"},
};

}  // namespace

std::span<const Probe> socket_probes() {
    return probes_of_sockets;
}

}  // namespace cairn::doctor
