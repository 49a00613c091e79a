// Packet sockets: protocol, interface, filter, memberships, options, a fanout group.
// ci: exact user
// rain: soak
// narrow: none
// root: packet sockets are for who has CAP_NET_RAW
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/packet_diag.h>
#include <linux/sock_diag.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <string>

#include "own_links.h"

namespace {

using test::option;
using test::set_option;

constexpr unsigned short ours = 0x88b5;  // of IEEE 802, for experiments

int packet_socket(int style, unsigned short protocol, unsigned interface) {
    const int fd = socket(AF_PACKET, style | SOCK_CLOEXEC, 0);
    if (fd < 0) test::skip("packet sockets are not allowed");
    sockaddr_ll name{};
    name.sll_family = AF_PACKET;
    name.sll_protocol = htons(protocol);
    name.sll_ifindex = static_cast<int>(interface);
    if (protocol != 0) CHECK(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    return fd;
}

bool bound_to(int fd, unsigned short protocol, unsigned interface) {
    sockaddr_ll name{};
    socklen_t length = sizeof name;
    CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0);
    return name.sll_family == AF_PACKET && name.sll_protocol == htons(protocol) &&
           name.sll_ifindex == static_cast<int>(interface);
}

// How often the socket is promiscuous on the interface, as the kernel tells it.
unsigned promiscuous(int fd, unsigned interface) {
    struct stat status {};
    CHECK(fstat(fd, &status) == 0);
    const int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    CHECK(netlink >= 0);
    struct {
        nlmsghdr header;
        packet_diag_req body;
    } request{};
    request.header = {sizeof request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0};
    request.body.sdiag_family = AF_PACKET;
    request.body.pdiag_show = PACKET_SHOW_MCLIST;
    CHECK(send(netlink, &request, sizeof request, 0) == sizeof request);
    unsigned count = 0;
    static char answer[1 << 16];
    for (bool more = true; more;) {
        const ssize_t got = recv(netlink, answer, sizeof answer, 0);
        CHECK(got > 0);
        for (ssize_t at = 0; at < got;) {
            nlmsghdr header{};
            packet_diag_msg socket{};
            memcpy(&header, answer + at, sizeof header);
            more = header.nlmsg_type != NLMSG_DONE && header.nlmsg_type != NLMSG_ERROR;
            if (!more) break;
            memcpy(&socket, answer + at + sizeof header, sizeof socket);
            const size_t end = static_cast<size_t>(at) + header.nlmsg_len;
            for (size_t next = static_cast<size_t>(at) + sizeof header + sizeof socket;
                 socket.pdiag_ino == status.st_ino && next < end;) {
                nlattr attribute{};
                memcpy(&attribute, answer + next, sizeof attribute);
                for (size_t part = next + sizeof attribute;
                     attribute.nla_type == PACKET_DIAG_MCLIST && part < next + attribute.nla_len;
                     part += sizeof(packet_diag_mclist)) {
                    packet_diag_mclist member{};
                    memcpy(&member, answer + part, sizeof member);
                    if (member.pdmc_type == PACKET_MR_PROMISC && member.pdmc_index == interface)
                        count += member.pdmc_count;
                }
                next += (attribute.nla_len + 3U) / 4 * 4;
            }
            at += static_cast<ssize_t>((header.nlmsg_len + 3) / 4 * 4);
        }
    }
    close(netlink);
    return count;
}

// A packet of our own, to ourselves. Other runs of this program do the same: their packets aren't ours.
void send_one(int fd, unsigned interface, const std::string& text) {
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_protocol = htons(ours);
    to.sll_ifindex = static_cast<int>(interface);
    to.sll_halen = 6;
    CHECK(sendto(fd, text.data(), text.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to) ==
          static_cast<ssize_t>(text.size()));
}

bool receives(int fd, const std::string& text) {
    char got[2000];
    for (ssize_t length; (length = recv(fd, got, sizeof got, 0)) >= 0;)
        if (std::string(got, static_cast<size_t>(length)).find(text) != std::string::npos) return true;
    return false;
}

void tell_statistics(const char* name, int fd) {
    tpacket_stats statistics{};
    socklen_t size = sizeof statistics;
    CHECK(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &size) == 0);
    fprintf(stderr, "%s: %u packets, %u of them dropped\n", name, statistics.tp_packets, statistics.tp_drops);
}

}  // namespace

int main() {
    own_links::be_alone_if_watched();
    const unsigned lo = if_nametoindex("lo");
    CHECK(lo != 0);
    const int cooked = packet_socket(SOCK_DGRAM, ours, lo);
    const int raw = packet_socket(SOCK_RAW, ours, 0);  // of all interfaces
    const int unbound = packet_socket(SOCK_DGRAM, 0, 0);
    const int deaf = packet_socket(SOCK_DGRAM, ours, lo);
    const int group[] = {packet_socket(SOCK_DGRAM, ours, lo), packet_socket(SOCK_DGRAM, ours, lo)};

    packet_mreq promiscuity{};
    promiscuity.mr_ifindex = static_cast<int>(lo);
    promiscuity.mr_type = PACKET_MR_PROMISC;
    CHECK(setsockopt(cooked, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuity, sizeof promiscuity) == 0);
    CHECK(setsockopt(cooked, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuity, sizeof promiscuity) == 0);
    set_option(raw, SOL_PACKET, PACKET_AUXDATA, 1);
    set_option(raw, SOL_PACKET, PACKET_ORIGDEV, 1);
    set_option(raw, SOL_SOCKET, SO_RCVBUF, 100000);
    const int receive_buffer = option(raw, SOL_SOCKET, SO_RCVBUF);
    sock_filter nothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
    const sock_fprog filter{1, nothing};
    CHECK(setsockopt(deaf, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0);
    char before = 0;
    while (recv(deaf, &before, 1, MSG_DONTWAIT) >= 0) {
    }
    const int fanout = (getpid() & 0xffff) | PACKET_FANOUT_LB << 16;
    for (const int fd : group) set_option(fd, SOL_PACKET, PACKET_FANOUT, fanout);
    const timeval patience{5, 0};
    for (const int fd : {cooked, raw, group[0], group[1]})
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);

    int number = 0;
    test::serve([&](bool) {
        CHECK(bound_to(cooked, ours, lo) && bound_to(raw, ours, 0) && bound_to(unbound, 0, 0));
        CHECK(option(cooked, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM &&
              option(raw, SOL_SOCKET, SO_TYPE) == SOCK_RAW);
        CHECK(promiscuous(cooked, lo) == 2 && promiscuous(raw, lo) == 0);
        CHECK(option(raw, SOL_PACKET, PACKET_AUXDATA) == 1 && option(raw, SOL_PACKET, PACKET_ORIGDEV) == 1);
        CHECK(option(cooked, SOL_PACKET, PACKET_AUXDATA) == 0);
        CHECK(option(raw, SOL_SOCKET, SO_RCVBUF) == receive_buffer);
        for (const int fd : group) CHECK(option(fd, SOL_PACKET, PACKET_FANOUT) == fanout);

        const std::string text = "cairn " + std::to_string(getpid()) + " " + std::to_string(++number) + ".";
        // The kernel may lose a packet, but not each: one of 2,000 wasn't there after 20 s on a busy machine.
        bool received = false;
        for (int times = 1; times <= 4 && !received; ++times) {
            send_one(unbound, lo, text);
            received = receives(cooked, text) && receives(raw, text);
            if (received) continue;
            fprintf(stderr, "not received, sent for the %dth time\n", times);
            tell_statistics("cooked", cooked);
            tell_statistics("raw", raw);
        }
        CHECK(received);
        char byte = 0;
        CHECK(recv(deaf, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
        // Two of them: one for each, in turn, but for those of others.
        for (const int fd : group) {
            while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0) {
            }
        }
    });
}
