// TUN/TAP: descriptions of /dev/net/tun that are attached to an interface, which goes with the last of
// them: its name, number, flags, owner and addresses, packets both ways, a child asleep in it; one
// interface that persists.
// ci: exact
// rain: soak
// narrow: none
// root: interfaces are for who has CAP_NET_ADMIN
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support.h"

namespace {

using test::Check;

// Nobody else's, as long as the process lives.
std::string interface_name(const char* which) {
    return std::string("ct") + which + std::to_string(getpid());
}

ifreq request_for(const std::string& name, int flags = 0) {
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_flags = static_cast<short>(flags);
    return request;
}

int open_device(int flags = O_RDWR) {
    const int fd = open("/dev/net/tun", flags);
    if (fd < 0) test::skip("/dev/net/tun can't be opened");
    return fd;
}

int attached(const std::string& name, int flags, int open_flags = O_RDWR) {
    const int fd = open_device(open_flags);
    ifreq request = request_for(name, flags);
    if (ioctl(fd, TUNSETIFF, &request) != 0 && errno == EPERM) test::skip("interfaces are not allowed");
    CHECK(request.ifr_name == name);
    return fd;
}

int asked(int fd, unsigned long what) {
    int answer = -1;
    CHECK(ioctl(fd, what, &answer) == 0);
    return answer;
}

void set_number(int fd, unsigned long what, int value) {
    CHECK(ioctl(fd, what, &value) == 0);
}

// ioctls of netdevice(7)
void configure(unsigned long what, ifreq request) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && ioctl(fd, what, &request) == 0);
    close(fd);
}

void bring_up(const std::string& name) {
    configure(SIOCSIFFLAGS, request_for(name, IFF_UP));
}

// What an answer of rtnetlink(7) says: its head, and its attributes by number.
template <class Head>
struct Answer {
    Head head{};
    std::map<int, std::string> attributes;
    bool operator==(const Answer& other) const {
        return memcmp(&head, &other.head, sizeof head) == 0 && attributes == other.attributes;
    }
};

template <class Head>
std::vector<Answer<Head>> list(unsigned short question, const Head& about, int flags) {
    struct {
        nlmsghdr header;
        Head body;
    } request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = question;
    request.header.nlmsg_flags = static_cast<unsigned short>(NLM_F_REQUEST | flags);
    request.body = about;
    const int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE);
    CHECK(netlink >= 0 && send(netlink, &request, sizeof request, 0) == sizeof request);
    std::vector<Answer<Head>> found;
    static char text[1 << 16];
    for (bool more = true; more;) {
        const ssize_t got = recv(netlink, text, sizeof text, 0);
        CHECK(got > 0);
        for (size_t at = 0; more && at < static_cast<size_t>(got);) {
            nlmsghdr header{};
            memcpy(&header, text + at, sizeof header);
            CHECK(header.nlmsg_type != NLMSG_ERROR);
            more = header.nlmsg_type != NLMSG_DONE && flags == NLM_F_DUMP;
            if (header.nlmsg_type == NLMSG_DONE) break;
            Answer<Head>& answer = found.emplace_back();
            memcpy(&answer.head, text + at + sizeof header, sizeof answer.head);
            for (size_t next = at + sizeof header + sizeof answer.head; next < at + header.nlmsg_len;) {
                rtattr attribute{};
                memcpy(&attribute, text + next, sizeof attribute);
                answer.attributes[attribute.rta_type].assign(text + next + sizeof attribute,
                                                             attribute.rta_len - sizeof attribute);
                next += (attribute.rta_len + 3U) / 4 * 4;
            }
            at += (header.nlmsg_len + 3) / 4 * 4;
        }
    }
    close(netlink);
    return found;
}

// What the kernel tells of an interface, without what changes by itself (counters, the state of its link).
struct Shown {
    Answer<ifinfomsg> link;
    std::vector<Answer<ifaddrmsg>> addresses;
    bool operator==(const Shown&) const = default;
};

Shown shown(const std::string& name) {
    ifinfomsg about{};
    about.ifi_index = static_cast<int>(if_nametoindex(name.c_str()));
    CHECK(about.ifi_index != 0);
    Shown found;
    found.link = list(RTM_GETLINK, about, 0).at(0);
    std::erase_if(found.link.attributes, [](const auto& each) {
        constexpr int lasting[] = {IFLA_IFNAME, IFLA_MTU,     IFLA_TXQLEN,  IFLA_ADDRESS,
                                   IFLA_GROUP,  IFLA_CARRIER, IFLA_LINKINFO};
        return std::ranges::find(lasting, each.first) == std::end(lasting);
    });
    for (Answer<ifaddrmsg>& each : list(RTM_GETADDR, ifaddrmsg{}, NLM_F_DUMP)) {
        if (static_cast<int>(each.head.ifa_index) != about.ifi_index) continue;
        each.head.ifa_flags = 0;  // tentative, and no longer
        std::erase_if(each.attributes, [](const auto& attribute) {
            return attribute.first == IFA_FLAGS || attribute.first == IFA_CACHEINFO ||
                   attribute.first > IFA_FLAGS;
        });
        found.addresses.push_back(std::move(each));
    }
    return found;
}

void add_address(const std::string& name, int family, const std::string& own, const std::string& peer,
                 int prefix) {
    struct {
        nlmsghdr header;
        ifaddrmsg body;
        char attributes[256];
    } request{};
    request.body.ifa_family = static_cast<unsigned char>(family);
    request.body.ifa_prefixlen = static_cast<unsigned char>(prefix);
    request.body.ifa_flags = IFA_F_NODAD;
    request.body.ifa_index = if_nametoindex(name.c_str());
    unsigned at = 0;
    for (const auto& [type, text] : {std::pair{IFA_LOCAL, own}, std::pair{IFA_ADDRESS, peer}}) {
        const unsigned short size = family == AF_INET ? 4 : 16;
        const rtattr attribute{static_cast<unsigned short>(sizeof attribute + size),
                               static_cast<unsigned short>(type)};
        memcpy(request.attributes + at, &attribute, sizeof attribute);
        CHECK(inet_pton(family, text.c_str(), request.attributes + at + sizeof attribute) == 1);
        at += attribute.rta_len;
    }
    request.header.nlmsg_len = static_cast<unsigned>(sizeof request - sizeof request.attributes + at);
    request.header.nlmsg_type = RTM_NEWADDR;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    const int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE);
    CHECK(send(netlink, &request, request.header.nlmsg_len, 0) ==
          static_cast<ssize_t>(request.header.nlmsg_len));
    struct {
        nlmsghdr header;
        nlmsgerr body;
    } answer{};
    CHECK(recv(netlink, &answer, sizeof answer, 0) > 0 && answer.body.error == 0);
    close(netlink);
}

// A network of four addresses, of those that are for measuring networks: another for each process.
std::string address(int last) {
    const int number = getpid() % 0x8000 * 4 + last;
    return "198." + std::to_string(18 + (number >> 16)) + "." + std::to_string(number >> 8 & 255) + "." +
           std::to_string(number & 255);
}

sockaddr_in socket_name(const std::string& text, unsigned short port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    CHECK(inet_pton(AF_INET, text.c_str(), &name.sin_addr) == 1);
    return name;
}

// An IPv4 packet with a UDP datagram.
std::string packet(const std::string& from, const std::string& to, unsigned short port,
                   const std::string& said) {
    std::string bytes(28, '\0');
    const auto put = [&](size_t at, unsigned value) {
        bytes[at] = static_cast<char>(value >> 8);
        bytes[at + 1] = static_cast<char>(value);
    };
    bytes[0] = 0x45;
    put(2, static_cast<unsigned>(bytes.size() + said.size()));
    bytes[8] = 64;
    bytes[9] = IPPROTO_UDP;
    CHECK(inet_pton(AF_INET, from.c_str(), bytes.data() + 12) == 1);
    CHECK(inet_pton(AF_INET, to.c_str(), bytes.data() + 16) == 1);
    unsigned sum = 0;
    for (size_t at = 0; at < 20; at += 2)
        sum += static_cast<unsigned char>(bytes[at]) * 256U + static_cast<unsigned char>(bytes[at + 1]);
    put(10, ~(sum % 0xffff) & 0xffff);
    put(20, port);
    put(22, port);
    put(24, static_cast<unsigned>(8 + said.size()));
    return bytes + said;
}

// What waits in it and has these words: the kernel sends packets of its own besides.
bool takes(int fd, const std::string& words) {
    for (pollfd polled{fd, POLLIN, 0}; poll(&polled, 1, 20'000) == 1;) {
        char bytes[2000];
        const ssize_t got = read(fd, bytes, sizeof bytes);
        CHECK(got > 0);
        if (std::string(bytes, static_cast<size_t>(got)).find(words) != std::string::npos) return true;
    }
    return false;
}

std::string words_for(int number) {
    return "cairn " + std::to_string(getpid()) + " " + std::to_string(number) + ".";
}

// With addresses, as a VPN has it, and a socket that is bound to one of them.
Check with_addresses() {
    const std::string name = interface_name("u");
    const int fd = attached(name, IFF_TUN | IFF_NO_PI), twice = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    ifreq size = request_for(name);
    size.ifr_mtu = 1380;
    configure(SIOCSIFMTU, size);
    ifreq queue = request_for(name);
    queue.ifr_qlen = 77;
    configure(SIOCSIFTXQLEN, queue);
    add_address(name, AF_INET, address(1), address(2), 32);
    add_address(name, AF_INET, address(3), address(3), 30);
    add_address(name, AF_INET6, "fd00:c::" + std::to_string(getpid() % 10000),
                "fd00:c::" + std::to_string(getpid() % 10000), 64);
    bring_up(name);
    const int inner = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ready = epoll_create1(EPOLL_CLOEXEC);
    const sockaddr_in own = socket_name(address(1), 5001), other = socket_name(address(2), 5001);
    CHECK(bind(inner, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
    epoll_event interest{EPOLLIN, {.fd = fd}};
    CHECK(epoll_ctl(ready, EPOLL_CTL_ADD, fd, &interest) == 0);
    const Shown before = shown(name);
    CHECK(before.addresses.size() >= 3);
    int number = 0;
    return [=](bool) mutable {
        CHECK(shown(name) == before);
        CHECK(fcntl(twice, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFD) == 0);
        const std::string out = words_for(++number), in = words_for(++number);
        CHECK(sendto(inner, out.data(), out.size(), 0, reinterpret_cast<const sockaddr*>(&other),
                     sizeof other) == static_cast<ssize_t>(out.size()));
        epoll_event told{};
        CHECK(epoll_wait(ready, &told, 1, 20'000) == 1 && told.data.fd == fd);
        CHECK(takes(twice, out));
        const std::string sent = packet(address(2), address(1), 5001, in);
        CHECK(write(fd, sent.data(), sent.size()) == static_cast<ssize_t>(sent.size()));
        CHECK(takes(inner, in));
    };
}

// As an emulator has it, with everything that can be set of the queue.
Check with_options() {
    const std::string name = interface_name("a");
    const int fd = attached(name, IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE, O_RDWR | O_NONBLOCK);
    set_number(fd, TUNSETVNETHDRSZ, 12);
    set_number(fd, TUNSETVNETLE, 1);
    set_number(fd, TUNSETSNDBUF, 1'000'000);
    CHECK(ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO6) == 0);
    CHECK(ioctl(fd, TUNSETOWNER, 1234) == 0 && ioctl(fd, TUNSETGROUP, 4321) == 0);
    ifreq hardware = request_for(name);
    hardware.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(hardware.ifr_hwaddr.sa_data, "\x02\x63\x61\x69\x72\x6e", 6);
    configure(SIOCSIFHWADDR, hardware);
    const Shown before = shown(name);
    return [=](bool) {
        CHECK(shown(name) == before);
        ifreq now{};
        CHECK(ioctl(fd, TUNGETIFF, &now) == 0 && now.ifr_name == name && (now.ifr_flags & IFF_TAP) != 0);
        CHECK(asked(fd, TUNGETVNETHDRSZ) == 12 && asked(fd, TUNGETVNETLE) == 1);
        CHECK(asked(fd, TUNGETSNDBUF) == 1'000'000);
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
        char byte;
        CHECK(read(fd, &byte, 1) == -1 && errno == EAGAIN);
    };
}

// With the four bytes before each packet that tell its protocol, as another type of link, and without a
// carrier.
Check with_heads() {
    const std::string name = interface_name("h");
    const int fd = attached(name, IFF_TUN);
    CHECK(ioctl(fd, TUNSETLINK, ARPHRD_PPP) == 0);
    set_number(fd, TUNSETCARRIER, 0);
    const Shown before = shown(name);
    return [=](bool) { CHECK(shown(name) == before); };
}

// A child has it as well, and is asleep in it; its parent sends to it by a packet socket.
Check in_a_child() {
    const std::string name = interface_name("c");
    const int fd = attached(name, IFF_TAP | IFF_NO_PI | IFF_NAPI);
    bring_up(name);
    const Shown before = shown(name);
    const int sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = before.link.head.ifi_index;
    CHECK(sender >= 0 && bind(sender, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    const std::string words = words_for(1000), frame = std::string(12, '\xff') + "\x88\xb5" + words;
    int heard[2];
    CHECK(pipe2(heard, O_CLOEXEC) == 0);
    const pid_t child = fork();
    if (child == 0)
        for (;;) {
            char bytes[2000];
            const ssize_t got = read(fd, bytes, sizeof bytes);
            CHECK(got > 0);
            if (std::string(bytes, static_cast<size_t>(got)).find(words) == std::string::npos) continue;
            CHECK(write(heard[1], "x", 1) == 1);
        }
    CHECK(child > 0);
    return [=](bool last) {
        CHECK(shown(name) == before);
        CHECK(send(sender, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
        pollfd polled{heard[0], POLLIN, 0};
        char byte;
        CHECK(poll(&polled, 1, 20'000) == 1 && read(heard[0], &byte, 1) == 1);
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

// It is there when the program is not, and is attached to again. Only where the network is the test's own:
// what a program leaves behind that doesn't come to its end goes with it.
Check persistent() {
    if (getenv("CAIRN_TEST_NETWORK") == nullptr) return [](bool) {};
    const std::string name = interface_name("p");
    const int fd = attached(name, IFF_TAP | IFF_NO_PI);
    CHECK(ioctl(fd, TUNSETPERSIST, 1) == 0);
    const Shown before = shown(name);
    return [=](bool last) {
        CHECK(shown(name) == before);
        ifreq now{};
        CHECK(ioctl(fd, TUNGETIFF, &now) == 0 && now.ifr_name == name);
        if (last) CHECK(ioctl(fd, TUNSETPERSIST, 0) == 0);
    };
}

// What isn't attached is a file, and can be attached later.
Check unattached() {
    const int fd = open_device();
    return [=](bool last) {
        char bytes[100];
        CHECK(read(fd, bytes, sizeof bytes) == -1 && errno == EBADFD);
        if (!last) return;
        ifreq request = request_for(interface_name("l"), IFF_TUN);
        CHECK(ioctl(fd, TUNSETIFF, &request) == 0);
    };
}

}  // namespace

int main() {
    test::serve({{"with addresses", with_addresses},
                 {"with options", with_options},
                 {"with heads", with_heads},
                 {"in a child", in_a_child},
                 {"persistent", persistent},
                 {"unattached", unattached}});
}
