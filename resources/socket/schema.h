// What an image says of all sockets: above all the options that a checkpoint keeps, which are what
// getsockopt(2) gives and setsockopt(2) takes back. Sources: socket(7), tcp(7), ip(7), ipv6(7), udp(7),
// netlink(7) and the kernel's uapi headers for those that the man pages lack. Left out is what belongs to the
// moment (TCP_QUICKACK, SO_ERROR), what describes and can't be set, and buffer sizes, which need an order of
// their own.
#pragma once

#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/schema/field.h"

namespace cairn::schema {

enum class OptionForm : std::uint8_t {
    number,  // int
    bytes,   // a struct, as it is
    text,    // without its terminating 0
};

enum class OptionMoment : std::uint8_t {
    before_bind,  // has a say in which addresses are to be had
    last,         // would be in the way of connecting and filling
};

struct SocketOption {
    const char* name;  // key in the image
    int level, option;
    OptionForm form = OptionForm::number;
    OptionMoment moment = OptionMoment::last;
};

// Those that Debian 12's headers have no name for, or hide, by their numbers.
inline constexpr int so_passpidfd = 76, so_txrehash = 74, so_passrights = 83, so_inq = 84;
inline constexpr int ip_bind_address_no_port = 24, ip_recverr_rfc4884 = 26, ip_local_port_range = 51;
inline constexpr int ipv6_freebind = 78, ipv6_addr_preferences = 72, ipv6_autoflowlabel = 70,
                     ipv6_multicast_all = 29, ipv6_minhopcount = 73;

// Applied in this order. A socket that hasn't an option says so, and it is left out.
inline constexpr std::array socket_options = {
    SocketOption{"SO_REUSEPORT", SOL_SOCKET, SO_REUSEPORT, OptionForm::number, OptionMoment::before_bind},
    SocketOption{"SO_BINDTODEVICE", SOL_SOCKET, SO_BINDTODEVICE, OptionForm::text, OptionMoment::before_bind},
    SocketOption{"IPV6_V6ONLY", IPPROTO_IPV6, IPV6_V6ONLY, OptionForm::number, OptionMoment::before_bind},
    SocketOption{"IP_FREEBIND", IPPROTO_IP, IP_FREEBIND, OptionForm::number, OptionMoment::before_bind},
    SocketOption{"IP_TRANSPARENT", IPPROTO_IP, IP_TRANSPARENT, OptionForm::number, OptionMoment::before_bind},
    SocketOption{"IPV6_FREEBIND", IPPROTO_IPV6, ipv6_freebind, OptionForm::number, OptionMoment::before_bind},
    SocketOption{"IPV6_TRANSPARENT", IPPROTO_IPV6, IPV6_TRANSPARENT, OptionForm::number,
                 OptionMoment::before_bind},
    SocketOption{"IP_BIND_ADDRESS_NO_PORT", IPPROTO_IP, ip_bind_address_no_port},
    SocketOption{"IP_LOCAL_PORT_RANGE", IPPROTO_IP, ip_local_port_range},

    SocketOption{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE},
    SocketOption{"SO_BROADCAST", SOL_SOCKET, SO_BROADCAST},
    SocketOption{"SO_DONTROUTE", SOL_SOCKET, SO_DONTROUTE},
    SocketOption{"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE},
    SocketOption{"SO_LINGER", SOL_SOCKET, SO_LINGER, OptionForm::bytes},
    SocketOption{"SO_PASSCRED", SOL_SOCKET, SO_PASSCRED},
    SocketOption{"SO_PASSSEC", SOL_SOCKET, SO_PASSSEC},
    SocketOption{"SO_PASSPIDFD", SOL_SOCKET, so_passpidfd},
    SocketOption{"SO_PASSRIGHTS", SOL_SOCKET, so_passrights},
    SocketOption{"SO_INQ", SOL_SOCKET, so_inq},
    SocketOption{"SO_MARK", SOL_SOCKET, SO_MARK},
    SocketOption{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT},
    SocketOption{"SO_RCVTIMEO", SOL_SOCKET, SO_RCVTIMEO, OptionForm::bytes},
    SocketOption{"SO_SNDTIMEO", SOL_SOCKET, SO_SNDTIMEO, OptionForm::bytes},
    SocketOption{"SO_TIMESTAMP", SOL_SOCKET, SO_TIMESTAMP},
    SocketOption{"SO_TIMESTAMPNS", SOL_SOCKET, SO_TIMESTAMPNS},
    SocketOption{"SO_TIMESTAMPING", SOL_SOCKET, SO_TIMESTAMPING},
    SocketOption{"SO_RXQ_OVFL", SOL_SOCKET, SO_RXQ_OVFL},
    SocketOption{"SO_WIFI_STATUS", SOL_SOCKET, SO_WIFI_STATUS},
    SocketOption{"SO_NO_CHECK", SOL_SOCKET, SO_NO_CHECK},
    SocketOption{"SO_BUSY_POLL", SOL_SOCKET, SO_BUSY_POLL},
    SocketOption{"SO_PREFER_BUSY_POLL", SOL_SOCKET, SO_PREFER_BUSY_POLL},
    SocketOption{"SO_MAX_PACING_RATE", SOL_SOCKET, SO_MAX_PACING_RATE, OptionForm::bytes},
    SocketOption{"SO_ZEROCOPY", SOL_SOCKET, SO_ZEROCOPY},
    SocketOption{"SO_TXREHASH", SOL_SOCKET, so_txrehash},

    SocketOption{"IP_TOS", IPPROTO_IP, IP_TOS},
    SocketOption{"IP_TTL", IPPROTO_IP, IP_TTL},
    SocketOption{"IP_MINTTL", IPPROTO_IP, IP_MINTTL},
    SocketOption{"IP_MTU_DISCOVER", IPPROTO_IP, IP_MTU_DISCOVER},
    SocketOption{"IP_RECVERR", IPPROTO_IP, IP_RECVERR},
    SocketOption{"IP_RECVERR_RFC4884", IPPROTO_IP, ip_recverr_rfc4884},
    SocketOption{"IP_PKTINFO", IPPROTO_IP, IP_PKTINFO},
    SocketOption{"IP_RECVTTL", IPPROTO_IP, IP_RECVTTL},
    SocketOption{"IP_RECVTOS", IPPROTO_IP, IP_RECVTOS},
    SocketOption{"IP_RECVOPTS", IPPROTO_IP, IP_RECVOPTS},
    SocketOption{"IP_RETOPTS", IPPROTO_IP, IP_RETOPTS},
    SocketOption{"IP_RECVORIGDSTADDR", IPPROTO_IP, IP_RECVORIGDSTADDR},
    SocketOption{"IP_MULTICAST_TTL", IPPROTO_IP, IP_MULTICAST_TTL},
    SocketOption{"IP_MULTICAST_LOOP", IPPROTO_IP, IP_MULTICAST_LOOP},
    SocketOption{"IP_MULTICAST_ALL", IPPROTO_IP, IP_MULTICAST_ALL},
    SocketOption{"IP_MULTICAST_IF", IPPROTO_IP, IP_MULTICAST_IF, OptionForm::bytes},
    SocketOption{"IP_UNICAST_IF", IPPROTO_IP, IP_UNICAST_IF, OptionForm::bytes},
    SocketOption{"IP_HDRINCL", IPPROTO_IP, IP_HDRINCL},
    SocketOption{"IPV6_UNICAST_HOPS", IPPROTO_IPV6, IPV6_UNICAST_HOPS},
    SocketOption{"IPV6_MULTICAST_HOPS", IPPROTO_IPV6, IPV6_MULTICAST_HOPS},
    SocketOption{"IPV6_MULTICAST_LOOP", IPPROTO_IPV6, IPV6_MULTICAST_LOOP},
    SocketOption{"IPV6_MULTICAST_ALL", IPPROTO_IPV6, ipv6_multicast_all},
    SocketOption{"IPV6_MULTICAST_IF", IPPROTO_IPV6, IPV6_MULTICAST_IF},
    SocketOption{"IPV6_TCLASS", IPPROTO_IPV6, IPV6_TCLASS},
    SocketOption{"IPV6_RECVPKTINFO", IPPROTO_IPV6, IPV6_RECVPKTINFO},
    SocketOption{"IPV6_RECVHOPLIMIT", IPPROTO_IPV6, IPV6_RECVHOPLIMIT},
    SocketOption{"IPV6_RECVTCLASS", IPPROTO_IPV6, IPV6_RECVTCLASS},
    SocketOption{"IPV6_MTU_DISCOVER", IPPROTO_IPV6, IPV6_MTU_DISCOVER},
    SocketOption{"IPV6_RECVERR", IPPROTO_IPV6, IPV6_RECVERR},
    SocketOption{"IPV6_DONTFRAG", IPPROTO_IPV6, IPV6_DONTFRAG},
    SocketOption{"IPV6_ADDR_PREFERENCES", IPPROTO_IPV6, ipv6_addr_preferences},
    SocketOption{"IPV6_AUTOFLOWLABEL", IPPROTO_IPV6, ipv6_autoflowlabel},
    SocketOption{"IPV6_MINHOPCOUNT", IPPROTO_IPV6, ipv6_minhopcount},
    // Behind IP_TOS and IPV6_TCLASS, which set it as well.
    SocketOption{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY},

    SocketOption{"TCP_CONGESTION", IPPROTO_TCP, TCP_CONGESTION, OptionForm::text},
    SocketOption{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE},
    SocketOption{"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL},
    SocketOption{"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT},
    SocketOption{"TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT},
    SocketOption{"TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2},
    SocketOption{"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT},
    SocketOption{"TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    SocketOption{"TCP_DEFER_ACCEPT", IPPROTO_TCP, TCP_DEFER_ACCEPT},
    SocketOption{"TCP_FASTOPEN", IPPROTO_TCP, TCP_FASTOPEN},
    SocketOption{"TCP_FASTOPEN_CONNECT", IPPROTO_TCP, TCP_FASTOPEN_CONNECT},
    SocketOption{"TCP_SAVE_SYN", IPPROTO_TCP, TCP_SAVE_SYN},
    SocketOption{"TCP_THIN_LINEAR_TIMEOUTS", IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS},
    SocketOption{"TCP_INQ", IPPROTO_TCP, TCP_INQ},
    SocketOption{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY},
    SocketOption{"TCP_CORK", IPPROTO_TCP, TCP_CORK},

    SocketOption{"UDP_CORK", IPPROTO_UDP, UDP_CORK},
    SocketOption{"UDP_SEGMENT", IPPROTO_UDP, UDP_SEGMENT},
    SocketOption{"UDP_GRO", IPPROTO_UDP, UDP_GRO},
    SocketOption{"UDP_NO_CHECK6_TX", IPPROTO_UDP, UDP_NO_CHECK6_TX},
    SocketOption{"UDP_NO_CHECK6_RX", IPPROTO_UDP, UDP_NO_CHECK6_RX},

    SocketOption{"NETLINK_PKTINFO", SOL_NETLINK, NETLINK_PKTINFO},
    SocketOption{"NETLINK_BROADCAST_ERROR", SOL_NETLINK, NETLINK_BROADCAST_ERROR},
    SocketOption{"NETLINK_NO_ENOBUFS", SOL_NETLINK, NETLINK_NO_ENOBUFS},
    SocketOption{"NETLINK_LISTEN_ALL_NSID", SOL_NETLINK, NETLINK_LISTEN_ALL_NSID},
    SocketOption{"NETLINK_CAP_ACK", SOL_NETLINK, NETLINK_CAP_ACK},
    SocketOption{"NETLINK_EXT_ACK", SOL_NETLINK, NETLINK_EXT_ACK},
    SocketOption{"NETLINK_GET_STRICT_CHK", SOL_NETLINK, NETLINK_GET_STRICT_CHK},

    SocketOption{"PACKET_AUXDATA", SOL_PACKET, PACKET_AUXDATA},
    SocketOption{"PACKET_ORIGDEV", SOL_PACKET, PACKET_ORIGDEV},
    SocketOption{"PACKET_VNET_HDR", SOL_PACKET, PACKET_VNET_HDR},
    SocketOption{"PACKET_TIMESTAMP", SOL_PACKET, PACKET_TIMESTAMP},
    SocketOption{"PACKET_QDISC_BYPASS", SOL_PACKET, PACKET_QDISC_BYPASS},
    SocketOption{"PACKET_IGNORE_OUTGOING", SOL_PACKET, PACKET_IGNORE_OUTGOING},
};

// SO_BUF_LOCK, since Linux 5.15: which buffers the program has set itself, so that the kernel doesn't tune
// them.
inline constexpr int so_buf_lock = 72, lock_send = 1, lock_receive = 2;

constexpr std::size_t count_options(OptionForm form) {
    std::size_t count = 0;
    for (const SocketOption& option : socket_options) count += option.form == form ? 1 : 0;
    return count;
}

// For each option of the table what the socket has of it, those of each form in the table's order. They are
// lists, so that an object that is no socket doesn't have to be as big.
struct SocketOptions {
    std::vector<std::optional<std::int32_t>> numbers = decltype(numbers)(count_options(OptionForm::number));
    std::vector<std::optional<Bytes>> blocks = decltype(blocks)(count_options(OptionForm::bytes));
    std::vector<std::optional<std::string>> texts = decltype(texts)(count_options(OptionForm::text));
    std::int32_t send_buffer = 0, receive_buffer = 0;  // as getsockopt(2) tells them
    std::optional<std::int32_t> buffer_lock, peek_offset;
    std::optional<std::int32_t> reuse_address;  // of families that do nothing with it
    Bytes filter;                               // struct sock_filter[]; empty: none
    bool filter_locked = false;
};

// Calls each(option, value) for every option of the table, `value` being what the socket has of it.
template <Struct<SocketOptions> S, class F>
void each_option(S& s, F&& each) {
    std::size_t number = 0, block = 0, text = 0;
    for (const SocketOption& option : socket_options) {
        if (option.form == OptionForm::number)
            each(option, s.numbers[number++]);
        else if (option.form == OptionForm::bytes)
            each(option, s.blocks[block++]);
        else
            each(option, s.texts[text++]);
    }
}

template <Struct<SocketOptions> S, class F>
void fields(S& s, F&& f) {
    each_option(s, [&](const SocketOption& option, auto& value) { f(std::string_view{option.name}, value); });
    f("SO_SNDBUF", s.send_buffer);
    f("SO_RCVBUF", s.receive_buffer);
    f("SO_BUF_LOCK", s.buffer_lock);
    f("SO_PEEK_OFF", s.peek_offset);
    f("SO_REUSEADDR", s.reuse_address);
    CAIRN_FIELD(filter);
    f("SO_LOCK_FILTER", s.filter_locked);
}

// What the socket has of one option; null: nothing, or not in this form.
template <class T, Struct<SocketOptions> S>
[[nodiscard]] auto* find_option(S& s, int level, int name) {
    std::conditional_t<std::is_const_v<S>, const T, T>* found = nullptr;
    each_option(s, [&]<class V>(const SocketOption& option, V& value) {
        if constexpr (std::is_same_v<std::remove_const_t<V>, std::optional<T>>)
            if (option.level == level && option.option == name && value) found = &*value;
    });
    return found;
}

// Who has made, called or sent something, as SO_PEERCRED and SCM_CREDENTIALS tell it.
struct Credentials {
    ProgramId pid;
    std::uint32_t uid = 0, gid = 0;
    auto operator<=>(const Credentials&) const = default;
};

template <Struct<Credentials> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pid);
    CAIRN_FIELD(uid);
    CAIRN_FIELD(gid);
}

// An address is sockaddr as the kernel gives it, and empty where there is none. Most of cairn has it as a
// string.
[[nodiscard]] inline Bytes to_bytes(std::string_view address) {
    return {address.begin(), address.end()};
}
[[nodiscard]] inline std::string to_string(const Bytes& address) {
    return {address.begin(), address.end()};
}

}  // namespace cairn::schema
