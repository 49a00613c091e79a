#include "restart/objects/time_wait.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
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

}  // namespace

void end_time_wait(const Address& address) {
    const Fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink) return;
    for (const int family : {AF_INET, AF_INET6})
        for (const inet_diag_sockid& id : in_time_wait(netlink.get(), family, address.port())) {
            std::array<char, 512> answer{};
            if (ask(netlink.get(), family, SOCK_DESTROY, NLM_F_ACK, id))
                (void)!::recv(netlink.get(), answer.data(), answer.size(), 0);
        }
}

}  // namespace cairn::restart
