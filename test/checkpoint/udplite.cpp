// UDP-Lite over IPv4 and IPv6: with each, both and none of the checksum coverages, new, bound, connected,
// with datagrams that wait and tell where they came from, also at a port that UDP has as well, in a multicast
// group, with options, nonblocking, with a thread asleep in recv, held twice, and by a child.
// ci: exact user
// network: own (the ports that it has had must be free at its restart)
// rain: soak
// narrow: none
// heirs: none
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <string>
#include <thread>

#include "support.h"

namespace {

using test::Check;
using test::option;
using test::set_option;

// udplite(7): no header that programs are built with has them.
constexpr int sending = 10, receiving = 11;  // UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV

struct Name {
    sockaddr_storage bytes{};
    socklen_t length = sizeof bytes;
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
    [[nodiscard]] int domain() const { return bytes.ss_family; }
    // Both families have it at the same place.
    [[nodiscard]] int port() const { return ntohs(reinterpret_cast<const sockaddr_in*>(&bytes)->sin_port); }
    [[nodiscard]] std::string words() const {
        char text[INET6_ADDRSTRLEN] = "";
        const void* host =
            domain() == AF_INET
                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&bytes)->sin_addr)
                : &reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr;
        inet_ntop(domain(), host, text, sizeof text);
        return text + std::string(" ") + std::to_string(port());
    }
    bool operator==(const Name& other) const {
        return length == other.length && std::memcmp(&bytes, &other.bytes, length) == 0;
    }
};

Name name(int domain, const char* host, int port) {
    Name made;
    made.bytes.ss_family = static_cast<sa_family_t>(domain);
    made.length = domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    reinterpret_cast<sockaddr_in*>(&made.bytes)->sin_port = htons(static_cast<in_port_t>(port));
    CHECK(inet_pton(domain, host,
                    domain == AF_INET
                        ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&made.bytes)->sin_addr)
                        : &reinterpret_cast<sockaddr_in6*>(&made.bytes)->sin6_addr) == 1);
    return made;
}
Name loopback(int domain, int port = 0) {
    return name(domain, domain == AF_INET ? "127.0.0.1" : "::1", port);
}

Name name_of(int fd) {
    Name own;
    CHECK(getsockname(fd, own.get(), &own.length) == 0);
    return own;
}
Name peer_of(int fd) {
    Name peer;
    CHECK(getpeername(fd, peer.get(), &peer.length) == 0);
    return peer;
}

int udplite(int domain, int flags = 0) {
    const int fd = socket(domain, SOCK_DGRAM | flags, IPPROTO_UDPLITE);
    if (fd < 0 && errno == EPROTONOSUPPORT) test::skip("no UDP-Lite");
    CHECK(fd >= 0);
    return fd;
}
bool bind_to(int fd, const Name& wanted) {
    return bind(fd, wanted.get(), wanted.length) == 0;
}
int bound(int domain, int flags = 0) {
    const int fd = udplite(domain, flags);
    CHECK(bind_to(fd, loopback(domain)));
    return fd;
}
void join(int fd, const Name& to) {
    CHECK(connect(fd, to.get(), to.length) == 0);
}
void cover(int fd, int which, int bytes) {
    set_option(fd, IPPROTO_UDPLITE, which, bytes);
}
bool is_udplite(int fd, int domain) {
    return option(fd, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM &&
           option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_UDPLITE &&
           option(fd, SOL_SOCKET, SO_DOMAIN) == domain;
}
bool has_coverages(int fd, int sent, int received) {
    return option(fd, IPPROTO_UDPLITE, sending) == sent && option(fd, IPPROTO_UDPLITE, receiving) == received;
}

void put(int fd, const Name& to, const std::string& text) {
    CHECK(sendto(fd, text.data(), text.size(), 0, to.get(), to.length) == static_cast<ssize_t>(text.size()));
}
// "text from address"
std::string take(int fd) {
    char text[2000];
    Name from;
    const ssize_t got = recvfrom(fd, text, sizeof text, MSG_DONTWAIT, from.get(), &from.length);
    if (got < 0) return errno == EAGAIN ? "<nothing>" : "<error>";
    return std::string(text, static_cast<std::size_t>(got)) + " from " + from.words();
}

const std::string long_text(100, 'u');
constexpr int whole = 108;  // with the header

// What is sent with a smaller coverage than the receiver wants doesn't arrive: so both are to be seen.
// Nothing may wait in `fd`, which must be bound and not be connected.
bool takes(int fd, int coverage) {
    const Name to = loopback(name_of(fd).domain(), name_of(fd).port());
    const int sender = bound(to.domain());
    cover(sender, sending, coverage);
    put(sender, to, long_text);
    const std::string wanted = long_text + " from " + name_of(sender).words();
    close(sender);
    const std::string got = take(fd);
    CHECK(got == wanted || got == "<nothing>");
    return got == wanted;
}
bool sends(int fd, int coverage) {
    const int receiver = bound(name_of(fd).domain());
    cover(receiver, receiving, coverage);
    put(fd, name_of(receiver), long_text);
    const std::string got = take(receiver);
    close(receiver);
    CHECK(got.starts_with(long_text) || got == "<nothing>");
    return got != "<nothing>";
}

template <int domain>
Check without_coverages() {
    const int fd = bound(domain), deaf = bound(domain, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const Name own = name_of(fd), of_deaf = name_of(deaf);
    return [=](bool) {
        CHECK(is_udplite(fd, domain) && has_coverages(fd, 0, 0) && name_of(fd) == own);
        CHECK(sends(fd, whole) && takes(fd, 8) && takes(fd, 0));
        CHECK(is_udplite(deaf, domain) && has_coverages(deaf, 0, 0) && name_of(deaf) == of_deaf);
        CHECK((fcntl(deaf, F_GETFL) & O_NONBLOCK) != 0 && fcntl(deaf, F_GETFD) == FD_CLOEXEC);
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0 && fcntl(fd, F_GETFD) == 0);
        const int other = udplite(domain);
        CHECK(!bind_to(other, own) && errno == EADDRINUSE);
        close(other);
    };
}

template <int domain>
Check with_coverages() {
    const int both = bound(domain), sender = bound(domain), receiver = bound(domain), strict = bound(domain);
    cover(both, sending, 20);
    cover(both, receiving, 30);
    cover(sender, sending, 1);  // 8 is the least
    cover(receiver, receiving, 50);
    cover(strict, receiving, 70'000);  // 65,535 is the most
    cover(strict, sending, whole);
    cover(strict, sending, 0);  // as one that was never set
    return [=](bool) {
        CHECK(is_udplite(both, domain) && has_coverages(both, 20, 30));
        CHECK(sends(both, 20) && !sends(both, 21) && takes(both, 30) && !takes(both, 29) && takes(both, 0));
        CHECK(has_coverages(sender, 8, 0) && sends(sender, 8) && !sends(sender, 9) && takes(sender, 8));
        CHECK(has_coverages(receiver, 0, 50) && sends(receiver, whole));
        CHECK(takes(receiver, 50) && !takes(receiver, 49));
        CHECK(has_coverages(strict, 0, 65'535) && sends(strict, whole));
        CHECK(!takes(strict, whole - 1) && takes(strict, 0));
    };
}

template <int domain>
Check unbound() {
    const int fd = udplite(domain), plain = udplite(domain);
    cover(fd, sending, 40);
    cover(fd, receiving, 41);
    return [=](bool last) {
        CHECK(is_udplite(fd, domain) && has_coverages(fd, 40, 41) && name_of(fd).port() == 0);
        CHECK(is_udplite(plain, domain) && has_coverages(plain, 0, 0) && name_of(plain).port() == 0);
        if (!last) return;
        CHECK(sends(fd, 40) && !sends(fd, 41) && takes(fd, 41) && !takes(fd, 40));
        CHECK(sends(plain, whole) && takes(plain, 8));
    };
}

// Some of what waits has come before the receiver wanted more coverage than it has.
template <int domain>
Check waiting() {
    const int fd = bound(domain), sender = bound(domain), partial = bound(domain), gone = bound(domain);
    cover(partial, sending, 8);
    cover(gone, sending, 9);
    const Name own = name_of(fd);
    put(sender, own, "one");
    put(partial, own, "two");
    put(gone, own, "gone");
    put(sender, own, "");
    put(fd, own, "to myself");
    put(partial, own, long_text);
    const std::string names[] = {name_of(sender).words(), name_of(partial).words(), name_of(gone).words()};
    close(gone);
    cover(fd, receiving, 200);
    cover(fd, sending, 12);
    return [=](bool last) {
        CHECK(is_udplite(fd, domain) && name_of(fd) == own && has_coverages(fd, 12, 200));
        CHECK(has_coverages(partial, 8, 0) && has_coverages(sender, 0, 0));
        if (!last) return;
        CHECK(take(fd) == "one from " + names[0] && take(fd) == "two from " + names[1]);
        CHECK(take(fd) == "gone from " + names[2] && take(fd) == " from " + names[0]);
        CHECK(take(fd) == "to myself from " + own.words());
        CHECK(take(fd) == long_text + " from " + names[1] && take(fd) == "<nothing>");
        put(partial, own, long_text);
        put(sender, own, "after it");
        CHECK(take(fd) == "after it from " + names[0] && take(fd) == "<nothing>");
    };
}

template <int domain>
Check connected() {
    const int stranger = bound(domain), left = bound(domain), right = bound(domain), caller = udplite(domain);
    put(stranger, name_of(left), "before they were connected");
    join(left, name_of(right));
    join(right, name_of(left));
    join(caller, name_of(stranger));  // the kernel has chosen its port
    cover(left, sending, 10);
    cover(right, receiving, 10);
    for (int i = 0; i < 30; ++i) CHECK(send(left, &i, sizeof i, 0) == sizeof i);
    CHECK(send(caller, "called", 6, 0) == 6);
    const Name names[] = {name_of(stranger), name_of(left), name_of(right), name_of(caller)};
    return [=](bool last) {
        CHECK(is_udplite(left, domain) && is_udplite(right, domain) && is_udplite(caller, domain));
        CHECK(name_of(left) == names[1] && name_of(right) == names[2] && name_of(caller) == names[3]);
        CHECK(peer_of(left) == names[2] && peer_of(right) == names[1] && peer_of(caller) == names[0]);
        CHECK(has_coverages(left, 10, 0) && has_coverages(right, 0, 10) && has_coverages(caller, 0, 0));
        put(stranger, names[2], "not from its peer");
        if (!last) return;
        CHECK(take(left) == "before they were connected from " + names[0].words());
        for (int i = 0; i < 30; ++i) {
            int got = -1;
            CHECK(recv(right, &got, sizeof got, MSG_DONTWAIT) == sizeof got && got == i);
        }
        CHECK(take(right) == "<nothing>" && take(stranger) == "called from " + names[3].words());
        CHECK(send(right, "back", 4, 0) == 4 && take(left) == "back from " + names[2].words());
        CHECK(send(left, long_text.data(), long_text.size(), 0) == 100);
        CHECK(take(right) == long_text + " from " + names[1].words());
        cover(right, receiving, 11);
        CHECK(send(left, long_text.data(), long_text.size(), 0) == 100 && take(right) == "<nothing>");
    };
}

Check both_worlds() {
    const int four = bound(AF_INET), dual = udplite(AF_INET6);
    CHECK(bind_to(dual, name(AF_INET6, "::", 0)));
    cover(four, sending, 16);
    cover(dual, receiving, 16);
    const Name own = name_of(dual), to = loopback(AF_INET, own.port());
    put(four, to, "from IPv4");
    return [=, wanted = "from IPv4 from ::ffff:" + name_of(four).words()](bool last) {
        CHECK(name_of(dual) == own && has_coverages(dual, 0, 16) && has_coverages(four, 16, 0));
        if (!last) return;
        CHECK(take(dual) == wanted);
        put(four, to, long_text);
        CHECK(take(dual).starts_with(long_text));
        cover(dual, receiving, 17);
        put(four, to, long_text);
        CHECK(take(dual) == "<nothing>");
    };
}

// A UDP and a UDP-Lite socket with the same name. The kernel finds the port free for UDP only; a program
// beside this one may have it for UDP-Lite, then another one is asked for.
struct Both {
    int plain, lite;
};
Both both_bound(int domain) {
    for (int attempt = 0; attempt < 100; ++attempt) {
        const int plain = socket(domain, SOCK_DGRAM, 0), lite = udplite(domain);
        CHECK(bind_to(plain, loopback(domain)));
        if (bind_to(lite, name_of(plain))) return {plain, lite};
        CHECK(errno == EADDRINUSE && close(plain) == 0 && close(lite) == 0);
    }
    test::failed(__FILE__, __LINE__, "no port is free for both protocols");
}

// The two protocols have ports of their own.
template <int domain>
Check beside_udp() {
    const auto [plain_0, lite_0] = both_bound(domain);
    const auto [plain_1, lite_1] = both_bound(domain);
    const Name names[] = {name_of(plain_0), name_of(plain_1)};
    put(plain_0, names[1], "by UDP");
    put(lite_0, names[1], "by UDP-Lite");
    return [=](bool last) {
        CHECK(is_udplite(lite_0, domain) && is_udplite(lite_1, domain) && !is_udplite(plain_0, domain));
        CHECK(name_of(lite_0) == names[0] && name_of(lite_1) == names[1] && name_of(plain_1) == names[1]);
        if (!last) return;
        CHECK(take(plain_1) == "by UDP from " + names[0].words() && take(plain_1) == "<nothing>");
        CHECK(take(lite_1) == "by UDP-Lite from " + names[0].words() && take(lite_1) == "<nothing>");
    };
}

// Over the loopback interface.
Check multicast() {
    const int group = udplite(AF_INET), announcer = udplite(AF_INET);
    set_option(group, SOL_SOCKET, SO_REUSEADDR, 1);
    CHECK(bind_to(group, name(AF_INET, "0.0.0.0", 0)));
    cover(announcer, sending, 20);
    cover(group, receiving, 20);
    ip_mreqn membership{};
    membership.imr_multiaddr.s_addr = inet_addr("239.1.2.4");
    membership.imr_ifindex = static_cast<int>(if_nametoindex("lo"));
    CHECK(setsockopt(group, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership) == 0);
    const in_addr here{htonl(INADDR_LOOPBACK)};
    CHECK(setsockopt(announcer, IPPROTO_IP, IP_MULTICAST_IF, &here, sizeof here) == 0);
    const Name to = name(AF_INET, "239.1.2.4", name_of(group).port());
    return [=](bool) {
        CHECK(option(group, SOL_SOCKET, SO_REUSEADDR) == 1 && has_coverages(group, 0, 20));
        put(announcer, to, long_text);
        for (int i = 0; i < 2000; ++i) {
            pollfd polled{group, POLLIN, 0};
            if (poll(&polled, 1, 5) == 1) break;
        }
        CHECK(take(group).starts_with(long_text));
    };
}

// Those of UDP are its own as well.
template <int domain>
Check options() {
    const int fd = bound(domain), plain = bound(domain);
    const int level = domain == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
    const int hops = domain == AF_INET ? IP_TTL : IPV6_UNICAST_HOPS,
              tell = domain == AF_INET ? IP_PKTINFO : IPV6_RECVPKTINFO;
    set_option(fd, level, hops, 7);
    set_option(fd, level, tell, 1);
    set_option(fd, SOL_SOCKET, SO_BROADCAST, 1);
    set_option(fd, SOL_SOCKET, SO_RCVBUF, 50'000);
    for (const int of_udp : {UDP_CORK, UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX})
        set_option(fd, IPPROTO_UDP, of_udp, 1);
    set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 500);
    const int size = option(fd, SOL_SOCKET, SO_RCVBUF);
    return [=](bool) {
        CHECK(option(fd, level, hops) == 7 && option(fd, level, tell) == 1);
        CHECK(option(fd, SOL_SOCKET, SO_BROADCAST) == 1 && option(fd, SOL_SOCKET, SO_RCVBUF) == size);
        CHECK(option(fd, SOL_SOCKET, SO_REUSEADDR) == 0 && option(fd, IPPROTO_UDP, UDP_SEGMENT) == 500);
        for (const int of_udp : {UDP_CORK, UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX})
            CHECK(option(fd, IPPROTO_UDP, of_udp) == 1 && option(plain, IPPROTO_UDP, of_udp) == 0);
        CHECK(has_coverages(fd, 0, 0));
    };
}

Check asleep_in_recv() {
    const int fd = bound(AF_INET), sender = bound(AF_INET);
    cover(fd, receiving, 64);
    cover(sender, sending, 64);
    static std::atomic<int> received{0}, failed{0};
    std::thread([fd] {
        char text[200];
        for (;;) ++(recv(fd, text, sizeof text, 0) == 100 ? received : failed);
    }).detach();
    static int sent = 0;
    return [=, own = name_of(fd)](bool) {
        CHECK(received == sent && failed == 0);
        put(sender, own, long_text);
        ++sent;
        for (int i = 0; i < 2000 && received != sent; ++i) test::nap(5);
        CHECK(received == sent && failed == 0);
    };
}

bool same_description(int a, int b) {
    const int flags = fcntl(a, F_GETFL);
    CHECK(fcntl(a, F_SETFL, flags ^ O_NONBLOCK) == 0);
    const bool same = fcntl(b, F_GETFL) == (flags ^ O_NONBLOCK);
    CHECK(fcntl(a, F_SETFL, flags) == 0);
    return same;
}

// Its child takes a datagram when it is told to, and sets a coverage that its parent has to see.
template <int domain>
Check shared() {
    const int fd = bound(domain), twice = dup(fd), other = bound(domain);
    cover(fd, receiving, 25);
    int to_child[2], from_child[2];
    CHECK(twice >= 0 && pipe(to_child) == 0 && pipe(from_child) == 0);
    const pid_t child = fork();
    if (child == 0) {
        for (unsigned char coverage = 0; read(to_child[0], &coverage, 1) == 1;) {
            CHECK(take(fd).starts_with("for the child from ") && take(fd) == "<nothing>");
            cover(fd, sending, coverage);
            CHECK(write(from_child[1], &coverage, 1) == 1);
        }
        _exit(0);
    }
    CHECK(child > 0);
    static unsigned char coverage = 8;
    cover(fd, sending, coverage);
    return [=, own = name_of(fd)](bool last) {
        CHECK(is_udplite(fd, domain) && name_of(fd) == own && has_coverages(fd, coverage, 25));
        CHECK(same_description(fd, twice) && !same_description(fd, other));
        ++coverage;
        put(other, own, "for the child");
        unsigned char answer = 0;
        CHECK(write(to_child[1], &coverage, 1) == 1 && read(from_child[0], &answer, 1) == 1);
        CHECK(answer == coverage && has_coverages(twice, coverage, 25));
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

}  // namespace

int main() {
    test::serve({{"without coverages", without_coverages<AF_INET>},
                 {"without coverages, IPv6", without_coverages<AF_INET6>},
                 {"with coverages", with_coverages<AF_INET>},
                 {"with coverages, IPv6", with_coverages<AF_INET6>},
                 {"unbound", unbound<AF_INET>},
                 {"unbound, IPv6", unbound<AF_INET6>},
                 {"datagrams that wait", waiting<AF_INET>},
                 {"datagrams that wait, IPv6", waiting<AF_INET6>},
                 {"connected", connected<AF_INET>},
                 {"connected, IPv6", connected<AF_INET6>},
                 {"a datagram from IPv4 to a socket of both worlds", both_worlds},
                 {"beside UDP", beside_udp<AF_INET>},
                 {"beside UDP, IPv6", beside_udp<AF_INET6>},
                 {"a multicast group", multicast},
                 {"options", options<AF_INET>},
                 {"options, IPv6", options<AF_INET6>},
                 {"asleep in recv", asleep_in_recv},
                 {"shared", shared<AF_INET>},
                 {"shared, IPv6", shared<AF_INET6>}});
}
