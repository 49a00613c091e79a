// Sockets of a network namespace that a program has made for itself: every kind is in that network again,
// with the addresses and names that others have in theirs.
// ci: exact virtual user userns
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <string>

#include "own_space.h"

namespace {
using namespace own_space;

void be_in_own_network() {
    be_root_of_ones_own(CLONE_NEWNET);
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request = {};
    strcpy(request.ifr_name, "lo");
    CHECK(ioctl(any, SIOCGIFFLAGS, &request) == 0);
    request.ifr_flags |= IFF_UP;
    CHECK(ioctl(any, SIOCSIFFLAGS, &request) == 0 && close(any) == 0);
}

ino_t my_network() {
    struct stat status = {};
    CHECK(stat("/proc/self/ns/net", &status) == 0);
    return status.st_ino;
}

// Only who has rights in it is told; who has made it has.
ino_t network_of(int fd) {
    const int space = ioctl(fd, SIOCGSKNS);
    if (space < 0 && errno == EPERM) return my_network();
    struct stat status = {};
    CHECK(space >= 0 && fstat(space, &status) == 0 && close(space) == 0);
    return status.st_ino;
}

struct Address {
    sockaddr_storage bytes = {};
    socklen_t length = 0;
    [[nodiscard]] const sockaddr* name() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

Address loopback(int domain, int at) {
    Address address;
    if (domain == AF_INET) {
        sockaddr_in four = {};
        four.sin_family = AF_INET;
        four.sin_port = htons(static_cast<std::uint16_t>(at));
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        memcpy(&address.bytes, &four, address.length = sizeof four);
    } else {
        sockaddr_in6 six = {};
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(static_cast<std::uint16_t>(at));
        six.sin6_addr = in6addr_loopback;
        memcpy(&address.bytes, &six, address.length = sizeof six);
    }
    return address;
}

// A leading '@' is an abstract name's 0.
Address unix_address(std::string name) {
    Address address;
    sockaddr_un path = {};
    path.sun_family = AF_UNIX;
    if (name[0] == '@') name[0] = 0;
    memcpy(path.sun_path, name.data(), name.size());
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    memcpy(&address.bytes, &path, sizeof path);
    return address;
}

int bound(int style, const Address& address) {
    const int fd = socket(address.bytes.ss_family, style | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, address.name(), address.length) == 0);
    return fd;
}

int listening(const Address& address) {
    const int fd = bound(SOCK_STREAM, address);
    CHECK(listen(fd, 8) == 0);
    return fd;
}

int called(const Address& address) {
    const int fd = socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, address.name(), address.length) == 0);
    return fd;
}

void say_to(int fd, const std::string& text) {
    CHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

std::string hear(int fd) {
    char text[256];
    const ssize_t got = read(fd, text, sizeof text);
    CHECK(got >= 0);
    return {text, static_cast<std::size_t>(got)};
}

Address address_of(int fd) {
    Address address;
    address.length = sizeof address.bytes;
    CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address.bytes), &address.length) == 0);
    return address;
}

bool same(const Address& one, const Address& other) {
    return one.length == other.length && memcmp(&one.bytes, &other.bytes, one.length) == 0;
}

// A listener, a connection with something on its way in both directions, and one that nobody has accepted.
class Stream {
  public:
    explicit Stream(const Address& address) : listener_(listening(address)), address_(address_of(listener_)) {
        caller_ = called(address_);
        answerer_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        CHECK(answerer_ >= 0);
        waiting_ = called(address_);
        fill();
        name_ = address_of(caller_);
    }
    [[nodiscard]] Stream* another() const { return new Stream(address_); }
    void check() {
        for (const int fd : {listener_, caller_, answerer_, waiting_}) CHECK(network_of(fd) == my_network());
        CHECK(same(address_of(caller_), name_) && same(address_of(listener_), address_));
        CHECK(hear(caller_) == "answer" && hear(answerer_) == "question");
        const int accepted = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        CHECK(accepted >= 0 && network_of(accepted) == my_network());
        say_to(waiting_, "late");
        CHECK(hear(accepted) == "late" && close(accepted) == 0 && close(waiting_) == 0);
        waiting_ = called(address_);
        fill();
    }

  private:
    void fill() const {
        say_to(caller_, "question");
        say_to(answerer_, "answer");
    }
    int listener_, caller_ = -1, answerer_ = -1, waiting_ = -1;
    Address address_, name_;
};

// Two sockets; what one has sent waits in the other.
class Datagrams {
  public:
    Datagrams(const Address& first, const Address& second)
        : from_(bound(SOCK_DGRAM, first)),
          to_(bound(SOCK_DGRAM, second)),
          first_(address_of(from_)),
          second_(address_of(to_)) {
        fill();
    }
    [[nodiscard]] Datagrams* another() const { return new Datagrams(first_, second_); }
    void check() const {
        CHECK(network_of(from_) == my_network() && network_of(to_) == my_network());
        char text[64];
        Address sender;
        sender.length = sizeof sender.bytes;
        const ssize_t got = recvfrom(to_, text, sizeof text, MSG_DONTWAIT,
                                     reinterpret_cast<sockaddr*>(&sender.bytes), &sender.length);
        CHECK(got == 4 && memcmp(text, "news", 4) == 0);
        CHECK(same(sender, first_));
        fill();
    }

  private:
    void fill() const { CHECK(sendto(from_, "news", 4, 0, second_.name(), second_.length) == 4); }
    int from_, to_;
    Address first_, second_;
};

// The same in two networks at a time: the parent's has these names and ports as well.
template <class Kind>
test::Check here_and_there(Kind* here) {
    auto* there = new Kind*(nullptr);
    auto inside = by(new Child(
        [=] {
            be_in_own_network();
            *there = here->another();
        },
        [=] { (*there)->check(); }));
    return [=](bool last) {
        inside(last);
        here->check();
    };
}

template <int domain>
test::Check streams() {
    return here_and_there(new Stream(loopback(domain, 0)));
}

test::Check abstract_streams() {
    return here_and_there(new Stream(unix_address("@cairn-own-network-" + std::to_string(getpid()))));
}

template <int domain>
test::Check datagrams() {
    return here_and_there(new Datagrams(loopback(domain, 0), loopback(domain, 0)));
}

test::Check abstract_datagrams() {
    const std::string name = "@cairn-own-datagrams-" + std::to_string(getpid());
    return here_and_there(new Datagrams(unix_address(name + "a"), unix_address(name + "b")));
}

// A pair, and one whose other end has gone.
test::Check pairs() {
    auto* const ends = new std::array<int, 4>;
    return by(new Child(
        [=] {
            be_in_own_network();
            CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->data()) == 0);
            CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->data() + 2) == 0);
            say_to((*ends)[0], "pair");
            say_to((*ends)[3], "last");
            CHECK(close((*ends)[3]) == 0);
        },
        [=] {
            for (int i = 0; i < 3; ++i)
                CHECK(network_of((*ends)[static_cast<std::size_t>(i)]) == my_network());
            CHECK(hear((*ends)[1]) == "pair");
            say_to((*ends)[0], "pair");
            char text[8];
            CHECK(recv((*ends)[2], text, sizeof text, MSG_PEEK) == 4 && memcmp(text, "last", 4) == 0);
        }));
}

// Names that are paths lead from one network to another.
test::Check called_from_inside() {
    const Address address = unix_address("own-network-" + std::to_string(getpid()));
    const int listener = listening(address);
    auto* const caller = new int(-1);
    auto inside = by(new Child(
        [=] {
            be_in_own_network();
            *caller = called(address);
        },
        [=] {
            CHECK(network_of(*caller) == my_network());
            CHECK(hear(*caller) == "from outside");
            say_to(*caller, "from inside");
        }));
    const int answerer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    CHECK(answerer >= 0);
    const ino_t here = my_network();
    return [=](bool last) {
        say_to(answerer, "from outside");
        inside(last);
        CHECK(hear(answerer) == "from inside");
        CHECK(network_of(listener) == here && network_of(answerer) != here);
    };
}

// Nobody is in that network any more, only the socket.
test::Check left_behind() {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0);
    const pid_t maker = fork();
    CHECK(maker >= 0);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    char byte = 0;
    iovec part = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (maker == 0) {
        be_in_own_network();
        const int made = listening(loopback(AF_INET, 0));
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof made);
        memcpy(CMSG_DATA(header), &made, sizeof made);
        CHECK(sendmsg(pair[1], &message, 0) == 1);
        _exit(0);
    }
    CHECK(recvmsg(pair[0], &message, MSG_CMSG_CLOEXEC) == 1 && waitpid(maker, nullptr, 0) == maker);
    int held = -1;
    memcpy(&held, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof held);
    CHECK(held >= 0 && close(pair[0]) == 0 && close(pair[1]) == 0);
    const Address name = address_of(held);
    return [=](bool) {
        CHECK(network_of(held) != my_network() && same(address_of(held), name));
        const int other = bound(SOCK_STREAM, name);  // the port is free here
        CHECK(close(other) == 0);
    };
}

// Two MPTCP listeners at the port that the first has in the other network, too.
class Multipath {
  public:
    explicit Multipath(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP)) {
        if (fd_ < 0) return;  // a kernel without
        address_ = loopback(AF_INET, port);
        CHECK(bind(fd_, address_.name(), address_.length) == 0 && listen(fd_, 3) == 0);
        address_ = address_of(fd_);
    }
    [[nodiscard]] Multipath* another() const {
        return new Multipath(
            fd_ < 0 ? 0 : ntohs(reinterpret_cast<const sockaddr_in*>(&address_.bytes)->sin_port));
    }
    void check() const {
        if (fd_ < 0) return;
        CHECK(network_of(fd_) == my_network() && same(address_of(fd_), address_));
        CHECK(test::option(fd_, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_MPTCP);
        const int caller = called(address_);
        const int accepted = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        CHECK(accepted >= 0);
        say_to(caller, "plain");
        CHECK(hear(accepted) == "plain" && close(caller) == 0 && close(accepted) == 0);
    }

  private:
    int fd_;
    Address address_;
};

// Hears what comes over the loopback interface of its network.
struct Hearing {
    int fd = -1, with_ring = -1;
    char* ring = nullptr;
    unsigned frame = 0;  // that is filled next
};

void send_packet() {
    const int from = bound(SOCK_DGRAM, loopback(AF_INET, 0));
    const Address nobody = loopback(AF_INET, 9);
    CHECK(sendto(from, "x", 1, 0, nobody.name(), nobody.length) == 1 && close(from) == 0);
}

test::Check packets() {
    auto* const hearing = new Hearing;
    constexpr unsigned frames = 8, frame_size = 2048;
    const auto hear_next = [=] {
        auto* const head =
            reinterpret_cast<tpacket2_hdr*>(hearing->ring + std::size_t{hearing->frame} * frame_size);
        for (int i = 0; (__atomic_load_n(&head->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0; ++i) {
            CHECK(i < 10'000);
            test::nap(1);
        }
        __atomic_store_n(&head->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        hearing->frame = (hearing->frame + 1) % frames;
    };
    return by(new Child(
        [=] {
            be_in_own_network();
            sockaddr_ll name = {};
            name.sll_family = AF_PACKET;
            name.sll_protocol = htons(ETH_P_IP);
            name.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
            const auto* generic = reinterpret_cast<const sockaddr*>(&name);
            hearing->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            CHECK(hearing->fd >= 0 && bind(hearing->fd, generic, sizeof name) == 0);
            hearing->with_ring = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
            const int version = TPACKET_V2;
            const tpacket_req wanted = {frames / 2 * frame_size, 2, frame_size, frames};
            CHECK(setsockopt(hearing->with_ring, SOL_PACKET, PACKET_VERSION, &version, sizeof version) == 0);
            CHECK(setsockopt(hearing->with_ring, SOL_PACKET, PACKET_RX_RING, &wanted, sizeof wanted) == 0);
            void* const at = mmap(nullptr, std::size_t{frames} * frame_size, PROT_READ | PROT_WRITE,
                                  MAP_SHARED, hearing->with_ring, 0);
            CHECK(at != MAP_FAILED && bind(hearing->with_ring, generic, sizeof name) == 0);
            hearing->ring = static_cast<char*>(at);
            // A packet is seen as it leaves and as it arrives.
            send_packet();
            hear_next();
            hear_next();
            char text[64];
            while (recv(hearing->fd, text, sizeof text, MSG_DONTWAIT) > 0) {
            }
        },
        [=] {
            for (const int fd : {hearing->fd, hearing->with_ring}) CHECK(network_of(fd) == my_network());
            send_packet();
            for (int i = 0; i < 2; ++i) {
                hear_next();
                char text[64];
                CHECK(recv(hearing->fd, text, sizeof text, 0) > 0);
            }
        }));
}

// Where the kernel has them.
test::Check virtual_machines() {
    auto* const fd = new int(-1);
    return by(new Child(
        [=] {
            be_in_own_network();
            *fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_vm name = {};
            name.svm_family = AF_VSOCK;
            name.svm_port = VMADDR_PORT_ANY;
            name.svm_cid = VMADDR_CID_ANY;
            if (*fd >= 0) CHECK(bind(*fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
        },
        [=] {
            if (*fd < 0) return;
            CHECK(network_of(*fd) == my_network());
            CHECK(test::option(*fd, SOL_SOCKET, SO_DOMAIN) == AF_VSOCK);
        }));
}

// It is told of the interfaces of its network, of which there is one.
test::Check asks_the_kernel() {
    auto* const asking = new int(-1);
    return by(new Child(
        [=] {
            be_in_own_network();
            *asking = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
            sockaddr_nl name = {};
            name.nl_family = AF_NETLINK;
            name.nl_groups = RTMGRP_LINK;
            CHECK(*asking >= 0 && bind(*asking, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
        },
        [=] {
            CHECK(network_of(*asking) == my_network());
            struct {
                nlmsghdr header;
                ifinfomsg body;
            } request = {};
            request.header = {sizeof request, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0};
            CHECK(send(*asking, &request, sizeof request, 0) == sizeof request);
            int links = 0;
            for (bool more = true; more;) {
                alignas(nlmsghdr) char answer[16384];
                const ssize_t got = recv(*asking, answer, sizeof answer, 0);
                CHECK(got > 0);
                auto length = static_cast<unsigned>(got);
                for (auto* each = reinterpret_cast<nlmsghdr*>(answer); NLMSG_OK(each, length);
                     each = NLMSG_NEXT(each, length)) {
                    links += each->nlmsg_type == RTM_NEWLINK ? 1 : 0;
                    more = more && each->nlmsg_type != NLMSG_DONE;
                }
            }
            CHECK(links == 1);
        }));
}

}  // namespace

int main() {
    need_user_namespaces();
    test::serve({
        {"TCP", streams<AF_INET>},
        {"TCP over IPv6", streams<AF_INET6>},
        {"connections by an abstract name", abstract_streams},
        {"UDP", datagrams<AF_INET>},
        {"UDP over IPv6", datagrams<AF_INET6>},
        {"datagrams by abstract names", abstract_datagrams},
        {"pairs", pairs},
        {"called from inside", called_from_inside},
        {"left behind", left_behind},
        {"asks the kernel", asks_the_kernel},
        {"MPTCP", [] { return here_and_there(new Multipath(0)); }},
        {"packet sockets", packets},
        {"vsocks", virtual_machines},
    });
}
