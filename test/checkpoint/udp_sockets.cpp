// UDP over IPv4 and IPv6: bound, connected, with datagrams that wait and tell where they came from, multicast
// groups, options; raw sockets (root) and netlink sockets.
// ci: exact user
// network: own (the ports that it has had must be free at its restart)
// rain: soak
// narrow: none
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <string>

#include "support.h"

namespace {

using test::option;

struct Name {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    [[nodiscard]] std::string words() const {
        char text[INET6_ADDRSTRLEN] = "";
        if (storage.ss_family == AF_INET) {
            sockaddr_in name{};
            std::memcpy(&name, &storage, sizeof name);
            inet_ntop(AF_INET, &name.sin_addr, text, sizeof text);
            return text + std::string(" ") + std::to_string(ntohs(name.sin_port));
        }
        sockaddr_in6 name{};
        std::memcpy(&name, &storage, sizeof name);
        inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text);
        return text + std::string(" ") + std::to_string(ntohs(name.sin6_port));
    }
};

Name name_of(int fd, bool peer = false) {
    Name name;
    auto* where = reinterpret_cast<sockaddr*>(&name.storage);
    CHECK((peer ? getpeername(fd, where, &name.length) : getsockname(fd, where, &name.length)) == 0);
    return name;
}

int bound(int domain, bool any = false) {
    const int fd = socket(domain, SOCK_DGRAM, 0);
    Name name;
    name.storage.ss_family = static_cast<sa_family_t>(domain);
    name.length = domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (domain == AF_INET && !any)
        reinterpret_cast<sockaddr_in*>(&name.storage)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (domain == AF_INET6 && !any)
        reinterpret_cast<sockaddr_in6*>(&name.storage)->sin6_addr = in6addr_loopback;
    CHECK(bind(fd, reinterpret_cast<sockaddr*>(&name.storage), name.length) == 0);
    return fd;
}

Name loopback_of(int fd) {
    Name name = name_of(fd);
    if (name.storage.ss_family == AF_INET)
        reinterpret_cast<sockaddr_in*>(&name.storage)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return name;
}

void put(int fd, const Name& to, const std::string& text) {
    CHECK(sendto(fd, text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&to.storage),
                 to.length) == static_cast<ssize_t>(text.size()));
}
void join(int fd, const Name& to) {
    CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&to.storage), to.length) == 0);
}

// "text from address"
std::string take(int fd) {
    char text[2000];
    Name from;
    const ssize_t got = recvfrom(fd, text, sizeof text, MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from.storage), &from.length);
    if (got < 0) return errno == EAGAIN ? "<nothing>" : "<error>";
    return std::string(text, static_cast<std::size_t>(got)) + " from " + from.words();
}

sockaddr_in loopback_address() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

void set_option(int fd, int level, int name, const auto& value) {
    CHECK(setsockopt(fd, level, name, &value, sizeof value) == 0);
}

test::Check datagrams() {
    const int a = bound(AF_INET), b = bound(AF_INET), any = bound(AF_INET, true),
              unbound = socket(AF_INET, SOCK_DGRAM, 0);
    // IP_TOS sets a priority as well, and this isn't the one (dropbear).
    set_option(a, IPPROTO_IP, IP_TOS, 0x48);
    set_option(a, SOL_SOCKET, SO_PRIORITY, 6);
    put(a, name_of(b), "one");
    put(any, name_of(b), "two");
    put(a, name_of(b), "");
    put(b, name_of(b), "to myself");
    put(a, loopback_of(any), "to any");
    const int vanished = bound(AF_INET);
    put(vanished, name_of(b), "vanished");
    close(vanished);
    const std::string names[] = {name_of(a).words(), name_of(b).words(), name_of(any).words()};
    return [=](bool last) {
        CHECK(name_of(a).words() == names[0] && name_of(b).words() == names[1]);
        CHECK(name_of(any).words() == names[2]);
        CHECK(option(a, IPPROTO_IP, IP_TOS) == 0x48 && option(a, SOL_SOCKET, SO_PRIORITY) == 6);
        put(unbound, loopback_of(any), "hi");
        if (!last) return;
        CHECK(take(b) == "one from " + names[0]);
        CHECK(take(b) == "two from " + loopback_of(any).words());
        CHECK(take(b) == " from " + names[0]);
        CHECK(take(b) == "to myself from " + names[1]);
        CHECK(take(b).starts_with("vanished from 127.0.0.1 ") && take(b) == "<nothing>");
        CHECK(take(any) == "to any from " + names[0] && take(any).starts_with("hi from 127.0.0.1 "));
    };
}

test::Check datagrams_over_ipv6() {
    const int six = bound(AF_INET6), sender = bound(AF_INET6);
    put(sender, name_of(six), "six");
    const std::string own = name_of(six).words(), of_sender = name_of(sender).words();
    return [=](bool last) {
        CHECK(name_of(six).words() == own && name_of(sender).words() == of_sender);
        if (last) CHECK(take(six) == "six from " + of_sender);
    };
}

test::Check both_worlds() {
    const int a = bound(AF_INET), dual = bound(AF_INET6, true);
    const Name own = name_of(dual);
    sockaddr_in6 six_name{};
    std::memcpy(&six_name, &own.storage, sizeof six_name);
    sockaddr_in v4 = loopback_address();
    v4.sin_port = six_name.sin6_port;
    Name to_dual;
    std::memcpy(&to_dual.storage, &v4, sizeof v4);
    to_dual.length = sizeof v4;
    put(a, to_dual, "dual");
    return [=, words = own.words()](bool last) {
        CHECK(name_of(dual).words() == words);
        if (last) CHECK(take(dual).starts_with("dual from ::ffff:127.0.0.1 "));
    };
}

test::Check connected() {
    const int a = bound(AF_INET), left = bound(AF_INET), right = bound(AF_INET);
    put(a, name_of(left), "before they were connected");
    join(left, name_of(right));
    join(right, name_of(left));
    for (int i = 0; i < 30; ++i) CHECK(send(left, &i, sizeof i, 0) == sizeof i);
    const std::string names[] = {name_of(a).words(), name_of(left).words(), name_of(right).words()};
    return [=](bool last) {
        CHECK(name_of(left).words() == names[1] && name_of(right).words() == names[2]);
        CHECK(name_of(left, true).words() == names[2] && name_of(right, true).words() == names[1]);
        if (!last) return;
        CHECK(take(left) == "before they were connected from " + names[0]);
        for (int i = 0; i < 30; ++i) {
            int got = -1;
            CHECK(recv(right, &got, sizeof got, MSG_DONTWAIT) == sizeof got && got == i);
        }
        CHECK(send(right, "back", 4, 0) == 4 && take(left) == "back from " + names[2]);
        CHECK(take(right) == "<nothing>");
    };
}

// Over the loopback interface.
test::Check multicast() {
    const int group = socket(AF_INET, SOCK_DGRAM, 0);
    set_option(group, SOL_SOCKET, SO_REUSEADDR, 1);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    CHECK(bind(group, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
    ip_mreqn membership{};
    membership.imr_multiaddr.s_addr = inet_addr("239.1.2.3");
    membership.imr_ifindex = static_cast<int>(if_nametoindex("lo"));
    set_option(group, IPPROTO_IP, IP_ADD_MEMBERSHIP, membership);
    const int announcer = socket(AF_INET, SOCK_DGRAM, 0);
    // By its address: the kernel doesn't tell of an interface that was chosen by its number.
    set_option(announcer, IPPROTO_IP, IP_MULTICAST_IF, loopback_address().sin_addr);
    Name to_group = name_of(group);
    reinterpret_cast<sockaddr_in*>(&to_group.storage)->sin_addr = membership.imr_multiaddr;
    return [=](bool) {
        CHECK(option(group, SOL_SOCKET, SO_REUSEADDR) == 1);
        put(announcer, to_group, "news");
        test::nap(2);
        CHECK(take(group).starts_with("news from "));
    };
}

test::Check options() {
    const int a = bound(AF_INET);
    set_option(a, IPPROTO_IP, IP_TTL, 7);
    set_option(a, IPPROTO_IP, IP_PKTINFO, 1);
    set_option(a, SOL_SOCKET, SO_BROADCAST, 1);
    set_option(a, SOL_SOCKET, SO_RCVBUF, 50000);
    const int size = option(a, SOL_SOCKET, SO_RCVBUF);
    return [=](bool) {
        CHECK(option(a, IPPROTO_IP, IP_TTL) == 7 && option(a, IPPROTO_IP, IP_PKTINFO) == 1);
        CHECK(option(a, SOL_SOCKET, SO_BROADCAST) == 1 && option(a, SOL_SOCKET, SO_RCVBUF) == size);
        CHECK(option(a, SOL_SOCKET, SO_REUSEADDR) == 0);
    };
}

void ask_for_links(int route) {
    struct {
        nlmsghdr header;
        rtgenmsg body;
    } ask{};
    ask.header.nlmsg_len = sizeof ask;
    ask.header.nlmsg_type = RTM_GETLINK;
    ask.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    ask.body.rtgen_family = AF_UNSPEC;
    CHECK(send(route, &ask, sizeof ask, 0) == sizeof ask);
    for (bool done = false; !done;) {
        alignas(nlmsghdr) char answer[32768];
        ssize_t got = recv(route, answer, sizeof answer, 0);
        CHECK(got > 0);
        nlmsghdr head{};
        for (char* at = answer; got >= static_cast<ssize_t>(sizeof head);) {
            std::memcpy(&head, at, sizeof head);
            done = done || head.nlmsg_type == NLMSG_DONE;
            const unsigned step = (head.nlmsg_len + 3U) & ~3U;
            at += step;
            got -= static_cast<ssize_t>(step);
        }
    }
}

test::Check netlink() {
    const int route = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    sockaddr_nl name{};
    name.nl_family = AF_NETLINK;
    name.nl_groups = RTMGRP_DECnet_ROUTE;  // of which there is no news any more: no other test's reaches it
    CHECK(bind(route, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    socklen_t size = sizeof name;
    CHECK(getsockname(route, reinterpret_cast<sockaddr*>(&name), &size) == 0);
    return [=](bool) {
        sockaddr_nl now{};
        socklen_t length = sizeof now;
        CHECK(getsockname(route, reinterpret_cast<sockaddr*>(&now), &length) == 0 &&
              now.nl_groups == RTMGRP_DECnet_ROUTE && now.nl_pid == name.nl_pid);
        ask_for_links(route);  // it still answers
    };
}

test::Check raw_socket() {
    // Root only. Of a protocol that nobody here speaks (RFC 3692): a raw socket gets whatever comes for its
    // protocol.
    const int raw = socket(AF_INET, SOCK_RAW, 253);
    if (raw >= 0) set_option(raw, IPPROTO_IP, IP_TTL, 7);
    return [=](bool) {
        if (raw >= 0) CHECK(option(raw, IPPROTO_IP, IP_TTL) == 7);
    };
}

}  // namespace

int main() {
    test::serve({{"datagrams", datagrams},
                 {"datagrams over IPv6", datagrams_over_ipv6},
                 {"a datagram from IPv4 to a socket of both worlds", both_worlds},
                 {"sockets connected to each other", connected},
                 {"a multicast group", multicast},
                 {"options", options},
                 {"a netlink socket", netlink},
                 {"a raw socket", raw_socket}});
}
