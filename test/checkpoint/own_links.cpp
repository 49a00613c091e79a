// Network interfaces of a network that a program has made for itself: dummies, bridges with ports, pairs of
// veths in one network and between two, a TAP interface that a process outside of the network holds (as
// slirp4netns does), with names, numbers, hardware addresses, MTU, addresses of both families and routes.
// Sockets are bound and connected over them.
// ci: exact user
// narrow: none
#include "own_links.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <string>

namespace {
using namespace own_links;

sockaddr_in at(const char* address, int port) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    CHECK(inet_pton(AF_INET, address, &name.sin_addr) == 1);
    return name;
}

int listen_at(const char* address, int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto name = at(address, port);
    CHECK(fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    CHECK(listen(fd, 3) == 0);
    return fd;
}

int call_at(const char* address, int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto name = at(address, port);
    CHECK(fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
    return fd;
}

void say_and_hear(int from, int to) {
    char text[8] = "";
    CHECK(write(from, "hello", 5) == 5 && read(to, text, sizeof text) == 5);
    CHECK(std::string(text, 5) == "hello");
}

// All that `look` says of its network, before and after.
template <class SetUp, class Also>
test::Check stays(const SetUp& set_up, const Also& also) {
    auto* const before = new std::string;
    return by(new Child(
        [=] {
            be_root_of_ones_own(CLONE_NEWNET);
            set_up();
            *before = look();
        },
        [=] {
            same_as(*before);
            also();
        }));
}

// A bridge without a port is as good where there are no dummies.
test::Check dummy() {
    auto* const ends = new int[3];
    const std::string kind = kernel_has("dummy") ? "dummy" : "bridge";
    return stays(
        [=] {
            bring_up("lo");
            add_link("first", kind);
            add_link("second", kind);
            set_hardware("first", "\x02\x00\x00\x00\x00\x17");
            set_mtu("first", 1400);
            add_address("first", AF_INET, "10.91.0.1", 24);
            add_address("first", AF_INET, "10.91.0.2", 24);
            add_address("first", AF_INET6, "fd00:91::1", 64);
            add_address("lo", AF_INET, "10.91.9.9", 32);
            bring_up("first");
            remove_link("second");
            add_link("third", kind);
            bring_up("third");
            add_address("third", AF_INET, "10.92.0.1", 16);
            add_address("third", AF_INET6, "fd00:92::1", 64, true);
            add_route(AF_INET, "0.0.0.0", 0, "10.91.0.254", "first");
            add_route(AF_INET, "10.93.0.0", 16, "10.92.7.7", "third");
            add_route(AF_INET6, "fd00:93::", 32, "fd00:91::fe", "first");
            ends[0] = listen_at("10.91.0.2", 4711);
            ends[1] = call_at("10.91.0.2", 4711);
            ends[2] = accept4(ends[0], nullptr, nullptr, SOCK_CLOEXEC);
            CHECK(ends[2] >= 0);
        },
        [=] {
            say_and_hear(ends[1], ends[2]);
            say_and_hear(ends[2], ends[1]);
        });
}

test::Check bridge() {
    return stays(
        [] {
            bring_up("lo");
            add_link("bridge", "bridge");
            add_pair("left", "right");
            add_pair("port", "unplugged");
            set_master("left", "bridge");
            set_master("port", "bridge");
            for (const char* name : {"bridge", "left", "right", "port"}) bring_up(name);
            add_address("bridge", AF_INET, "10.94.0.1", 24);
        },
        [] {});
}

// Between a network and one of a child's.
test::Check two_networks() {
    auto* const before = new std::string;
    auto* inner = new Child*(nullptr);
    return by(new Child(
        [=] {
            be_root_of_ones_own(CLONE_NEWNET);
            bring_up("lo");
            *inner = new Child([] { CHECK(unshare(CLONE_NEWNET) == 0); },
                               [=, there = std::string()]() mutable {
                                   if (there.empty()) {
                                       bring_up("lo");
                                       bring_up("inside");
                                       add_address("inside", AF_INET, "10.95.0.2", 24);
                                       add_route(AF_INET, "0.0.0.0", 0, "10.95.0.1", "inside");
                                       there = look();
                                   } else {
                                       same_as(there);
                                       const int caller = call_at("10.95.0.1", 80);
                                       say_and_hear(caller, caller);
                                       CHECK(close(caller) == 0);
                                   }
                               });
            add_pair("outside", "inside", (*inner)->pid());
            bring_up("outside");
            add_address("outside", AF_INET, "10.95.0.1", 24);
            (*inner)->ask();
            const int listening = listen_at("10.95.0.1", 80);
            const pid_t echo = fork();
            if (echo == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) {
                    const int caller = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
                    char text[8];
                    const ssize_t got = read(caller, text, sizeof text);
                    CHECK(got == 5 && write(caller, text, 5) == 5 && close(caller) == 0);
                }
            }
            CHECK(echo > 0 && close(listening) == 0);
            *before = look();
        },
        [=] {
            same_as(*before);
            (*inner)->ask();
        }));
}

// The parent has the queue, the child is in the network.
test::Check tap_from_outside() {
    auto* const before = new std::string;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const int ours = pair[0], theirs = pair[1];
    auto* child = new Child(
        [=] {
            be_root_of_ones_own(CLONE_NEWNET);
            bring_up("lo");
            const int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
            ifreq wanted = {};
            wanted.ifr_flags = IFF_TAP | IFF_NO_PI;
            std::strcpy(wanted.ifr_name, "tap0");
            const bool made = tap >= 0 && ioctl(tap, TUNSETIFF, &wanted) == 0;
            send_descriptor(theirs, made ? tap : -1);
            CHECK(close(ours) == 0 && close(theirs) == 0);
            if (!made) return;
            CHECK(close(tap) == 0);
            set_mtu("tap0", 1300);
            bring_up("tap0");
            add_address("tap0", AF_INET, "10.0.2.100", 24);
            add_route(AF_INET, "0.0.0.0", 0, "10.0.2.2", "tap0");
            *before = look();
        },
        [=] {
            if (before->empty()) return;
            same_as(*before);
            // What is sent to the network comes out of the queue.
            const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            const auto name = at("10.0.2.255", 9);
            const int yes = 1;
            CHECK(setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes) == 0);
            CHECK(sendto(fd, "to the queue", 12, 0, reinterpret_cast<const sockaddr*>(&name), sizeof name) ==
                  12);
            CHECK(close(fd) == 0);
        });
    const int tap = receive_descriptor(ours);
    CHECK(close(ours) == 0 && close(theirs) == 0);
    if (tap >= 0) CHECK(fcntl(tap, F_SETFL, O_NONBLOCK) == 0);
    return [=, check = by(child)](bool last) {
        check(last);
        if (tap < 0 || last) return;
        char packet[2048];
        bool heard = false;
        for (int i = 0; !heard; ++i) {
            const ssize_t got = read(tap, packet, sizeof packet);
            heard = got > 12 && std::string(packet + got - 12, 12) == "to the queue";
            if (got < 0) test::nap(1);
            CHECK(i < 10'000);
        }
    };
}

}  // namespace

int main() {
    need_user_namespaces();
    if (!kernel_has("bridge") || !kernel_has("veth")) test::skip("this kernel has no bridges or veths");
    test::serve({
        {"dummies", dummy},
        {"a bridge", bridge},
        {"two networks", two_networks},
        {"TAP", tap_from_outside},
    });
}
