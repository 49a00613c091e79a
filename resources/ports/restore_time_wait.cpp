#include "resources/ports/restore_time_wait.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "common/fd.h"

namespace cairn::restart {
namespace {

struct Request {
    nlmsghdr header{};
    inet_diag_req_v2 body{};
};

bool ask(int netlink, int family, int type, int flags, const inet_diag_sockid& id) {
    Request request;
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = static_cast<std::uint16_t>(type);
    request.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    request.body.sdiag_family = static_cast<std::uint8_t>(family);
    request.body.sdiag_protocol = IPPROTO_TCP;
    request.body.idiag_states = 1U << TCP_TIME_WAIT;
    request.body.id = id;
    return ::send(netlink, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

std::vector<inet_diag_sockid> in_time_wait(int netlink, int family, std::uint16_t port) {
    std::vector<inet_diag_sockid> found;
    if (!ask(netlink, family, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, {})) return found;
    alignas(nlmsghdr) std::array<char, 32768> room{};
    for (;;) {
        const ssize_t size = ::recv(netlink, room.data(), room.size(), 0);
        if (size <= 0) return found;
        std::size_t left = static_cast<std::size_t>(size), at = 0;
        while (left >= sizeof(nlmsghdr)) {
            nlmsghdr header{};
            std::memcpy(&header, room.data() + at, sizeof header);
            if (header.nlmsg_len < sizeof header || header.nlmsg_len > left) return found;
            if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR) return found;
            inet_diag_msg message{};
            if (header.nlmsg_len >= sizeof header + sizeof message) {
                std::memcpy(&message, room.data() + at + sizeof header, sizeof message);
                if (ntohs(message.id.idiag_sport) == port && message.idiag_state == TCP_TIME_WAIT)
                    found.push_back(message.id);
            }
            const std::size_t step = std::min<std::size_t>((header.nlmsg_len + 3U) & ~3U, left);
            at += step;
            left -= step;
        }
    }
}

// The state of the connection with exactly these names and the inode of its socket, 0 if nobody holds it.
struct Found {
    int state = 0;
    std::uint32_t inode = 0;
};
std::optional<Found> find_connection(int netlink, int family, const inet_diag_sockid& id) {
    Request request;
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST;
    request.body.sdiag_family = static_cast<std::uint8_t>(family);
    request.body.sdiag_protocol = IPPROTO_TCP;
    request.body.idiag_states = ~0U;
    request.body.id = id;
    if (::send(netlink, &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) return {};
    alignas(nlmsghdr) std::array<char, 8192> room{};
    const ssize_t size = ::recv(netlink, room.data(), room.size(), 0);
    nlmsghdr header{};
    inet_diag_msg message{};
    if (size < static_cast<ssize_t>(sizeof header + sizeof message)) return {};
    std::memcpy(&header, room.data(), sizeof header);
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
    std::memcpy(&message, room.data() + sizeof header, sizeof message);
    // A listening socket answers where there is no such connection.
    if (message.id.idiag_dport != id.idiag_dport) return {};
    return Found{message.idiag_state, message.idiag_inode};
}

// What closed sockets leave behind. Nobody holds a connection in a listener's backlog either, which lives.
bool is_ending(int state) {
    return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING ||
           state == TCP_LAST_ACK || state == TCP_TIME_WAIT;
}

// Root only.
bool destroy(int netlink, int family, const inet_diag_sockid& id) {
    std::array<char, 512> answer{};
    if (!ask(netlink, family, SOCK_DESTROY, NLM_F_ACK, id)) return false;
    const ssize_t size = ::recv(netlink, answer.data(), answer.size(), 0);
    nlmsghdr header{};
    nlmsgerr error{};
    if (size < static_cast<ssize_t>(sizeof header + sizeof error)) return false;
    std::memcpy(&header, answer.data(), sizeof header);
    std::memcpy(&error, answer.data() + sizeof header, sizeof error);
    return header.nlmsg_type == NLMSG_ERROR && error.error == 0;
}

Address address_of(int family, const __be32 (&bytes)[4], __be16 port) {
    char text[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(family, bytes, text, sizeof text);
    return Address::parse(text, ntohs(port)).in_domain(AF_INET);
}

}  // namespace

void call_and_hang_up(const Address& from, const Address& to) {
    const Address own = from.in_domain(AF_INET), peer = to.in_domain(AF_INET);
    if (own.domain() != peer.domain()) return;
    const Fd fd(::socket(own.domain(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    const linger at_once{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (take_for_call(fd.get(), own)) (void)!::connect(fd.get(), peer.name(), peer.length());
}

void end_leftover(const Address& own_name, const Address& peer_name) {
    if (own_name.empty() || peer_name.empty()) return;
    const Address own = own_name.in_domain(AF_INET), peer = peer_name.in_domain(AF_INET);
    if (own.domain() != peer.domain()) return;
    const Fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink) return;
    inet_diag_sockid id{};
    id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    id.idiag_sport = htons(own.port());
    id.idiag_dport = htons(peer.port());
    std::memcpy(id.idiag_src, own.host_bytes().first.data(), own.host_bytes().second);
    std::memcpy(id.idiag_dst, peer.host_bytes().first.data(), peer.host_bytes().second);
    const auto found = find_connection(netlink.get(), own.domain(), id);
    if (!found || found->inode != 0 || !is_ending(found->state)) return;
    if (!destroy(netlink.get(), own.domain(), id) && found->state == TCP_TIME_WAIT && peer.is_here())
        call_and_hang_up(peer, own);
}

void end_time_wait(const Address& address) {
    const Fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink) return;
    for (const int family : {AF_INET, AF_INET6})
        for (const inet_diag_sockid& id : in_time_wait(netlink.get(), family, address.port())) {
            if (destroy(netlink.get(), family, id)) continue;
            const Address peer = address_of(family, id.idiag_dst, id.idiag_dport);
            if (peer.is_here()) call_and_hang_up(peer, address_of(family, id.idiag_src, id.idiag_sport));
        }
}

bool LeftoverPatience::worth_another_call(const Address& own, const Address& peer, bool first) {
    if (first) {
        end_leftover(own, peer);
        end_leftover(peer, own);
        if (ends_ == Clock::time_point()) ends_ = Clock::now() + std::chrono::milliseconds(1500);
        return true;
    }
    if (Clock::now() > ends_ || !(own.is_loopback() || peer.is_loopback())) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return true;
}

std::vector<Leftover> leftovers_at(const Address& address) {
    std::vector<Leftover> found;
    const Fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink) return found;
    for (const int family : {AF_INET, AF_INET6})
        for (const inet_diag_sockid& id : in_time_wait(netlink.get(), family, address.port()))
            found.push_back({address_of(family, id.idiag_src, id.idiag_sport),
                             address_of(family, id.idiag_dst, id.idiag_dport)});
    return found;
}

}  // namespace cairn::restart
