#include "resources/socket/capture_diag.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/packet_diag.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

namespace cairn::capture {
namespace {

// As NLMSG_ALIGN and NLA_ALIGN, which mix signed and unsigned.
constexpr std::size_t aligned(std::size_t size) {
    return (size + 3) / 4 * 4;
}

template <class T>
T read_as(std::span<const char> bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
    return value;
}

template <class Take>
void each_attribute(std::span<const char> rest, const Take& take) {
    while (rest.size() >= sizeof(nlattr)) {
        const auto attribute = read_as<nlattr>(rest);
        if (attribute.nla_len < sizeof attribute || attribute.nla_len > rest.size()) return;
        take(attribute.nla_type, rest.subspan(sizeof attribute, attribute.nla_len - sizeof attribute));
        rest = rest.subspan(std::min(rest.size(), aligned(attribute.nla_len)));
    }
}

UnixDiagnosis unix_of(std::span<const char> body) {
    UnixDiagnosis found;
    found.state = read_as<unix_diag_msg>(body).udiag_state;
    each_attribute(body.subspan(aligned(sizeof(unix_diag_msg))), [&](int type, std::span<const char> value) {
        switch (type) {
            case UNIX_DIAG_PEER:
                found.peer = read_as<std::uint32_t>(value);
                break;
            case UNIX_DIAG_SHUTDOWN:
                found.shutdown = static_cast<unsigned char>(value.front());
                break;
            case UNIX_DIAG_NAME:
                found.name.assign(value.begin(), value.end());
                break;
            case UNIX_DIAG_VFS: {
                const auto path = read_as<unix_diag_vfs>(value);
                found.path_inode = path.udiag_vfs_ino;
                // The kernel's own dev_t: 12 bits and 20.
                found.path_device = makedev(path.udiag_vfs_dev >> 20, path.udiag_vfs_dev & 0xfffff);
                break;
            }
            case UNIX_DIAG_ICONS:
                for (; value.size() >= sizeof(std::uint32_t); value = value.subspan(sizeof(std::uint32_t)))
                    found.pending.push_back(read_as<std::uint32_t>(value));
                break;
            case UNIX_DIAG_RQLEN:
                found.backlog = read_as<unix_diag_rqlen>(value).udiag_wqueue;
                break;
            default:
                break;
        }
    });
    return found;
}

std::string address_of(int family, const __be32* address, __be16 port, std::uint32_t interface) {
    if (family == AF_INET) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = port;
        std::memcpy(&name.sin_addr, address, sizeof name.sin_addr);
        return {reinterpret_cast<const char*>(&name), sizeof name};
    }
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = port;
    std::memcpy(&name.sin6_addr, address, sizeof name.sin6_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&name.sin6_addr)) name.sin6_scope_id = interface;
    return {reinterpret_cast<const char*>(&name), sizeof name};
}

InternetDiagnosis internet_of(std::span<const char> body) {
    const auto message = read_as<inet_diag_msg>(body);
    const auto& id = message.id;
    InternetDiagnosis found;
    found.state = message.idiag_state;
    found.own = address_of(message.idiag_family, id.idiag_src, id.idiag_sport, id.idiag_if);
    found.peer = address_of(message.idiag_family, id.idiag_dst, id.idiag_dport, id.idiag_if);
    found.inode = message.idiag_inode;
    found.waiting = message.idiag_rqueue;
    found.unsent = message.idiag_wqueue;
    each_attribute(body.subspan(std::min(body.size(), aligned(sizeof message))),
                   [&](int type, std::span<const char> value) {
                       if (type == INET_DIAG_SHUTDOWN)
                           found.shutdown = static_cast<unsigned char>(value.front());
                       if (type != INET_DIAG_INFO) return;
                       // linux/tcp.h's struct, of which netinet/tcp.h has a shorter one
                       constexpr std::size_t acked_at = 120, received_at = 128;
                       if (value.size() < received_at + 8) return;
                       found.acknowledged = read_as<std::uint64_t>(value.subspan(acked_at));
                       found.received = read_as<std::uint64_t>(value.subspan(received_at));
                   });
    return found;
}

}  // namespace

Result<> SockDiag::open() {
    if (netlink_) return {};
    netlink_.reset(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!netlink_) return fail_errno("sock_diag");
    answer_.resize(1 << 16);
    return {};
}

Result<> SockDiag::ask(const void* request, std::size_t size) {
    CHECK_OK(open());
    if (::send(netlink_.get(), request, size, 0) < 0) return fail_errno("sock_diag");
    return {};
}

namespace {

struct UnixRequest {
    nlmsghdr header{};
    unix_diag_req body{};
};

UnixRequest unix_request(int flags) {
    UnixRequest request;
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = static_cast<__u16>(NLM_F_REQUEST | flags);
    request.body.sdiag_family = AF_UNIX;
    request.body.udiag_states = ~0U;
    request.body.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_VFS | UDIAG_SHOW_RQLEN;
    request.body.udiag_cookie[0] = request.body.udiag_cookie[1] = ~0U;  // any
    return request;
}

}  // namespace

// To find one by its inode the kernel looks through all sockets of the machine: with ten thousand of them
// half a millisecond for each. Who asks often gets the list instead.
Result<UnixDiagnosis> SockDiag::unix_socket(ino_t inode, bool listening) {
    constexpr int often = 64;
    if (!listening && ++asked_ == often) CHECK_OK(list_unix_sockets());
    if (!listening)
        if (const auto known = unix_sockets_.find(static_cast<std::uint32_t>(inode));
            known != unix_sockets_.end())
            return known->second;
    auto request = unix_request(0);
    request.body.udiag_ino = static_cast<__u32>(inode);
    // With a long list of pending connections the answer may be too long for the kernel to give at all.
    if (listening) request.body.udiag_show |= UDIAG_SHOW_ICONS;
    CHECK_OK(ask(&request, sizeof request));
    const ssize_t length = ::recv(netlink_.get(), answer_.data(), answer_.size(), 0);
    if (length < static_cast<ssize_t>(sizeof(nlmsghdr))) return fail_errno("sock_diag");
    const std::span<const char> answer(answer_.data(), static_cast<std::size_t>(length));
    const auto body = answer.subspan(aligned(sizeof(nlmsghdr)));
    if (read_as<nlmsghdr>(answer).nlmsg_type == NLMSG_ERROR) {
        errno = -read_as<nlmsgerr>(body).error;
        return fail_errno("sock_diag doesn't know this socket (it may be in another network namespace)");
    }
    return unix_of(body);
}

Result<> SockDiag::list_unix_sockets() {
    const auto request = unix_request(NLM_F_DUMP);
    return list(&request, sizeof request, [this](std::span<const char> body) {
        unix_sockets_[read_as<unix_diag_msg>(body).udiag_ino] = unix_of(body);
    });
}

Result<> SockDiag::list(const void* request, std::size_t size,
                        const std::function<void(std::span<const char>)>& take) {
    CHECK_OK(ask(request, size));
    for (;;) {
        const ssize_t length = ::recv(netlink_.get(), answer_.data(), answer_.size(), 0);
        if (length < 0) return fail_errno("sock_diag");
        if (length == 0) return {};
        std::span<const char> rest(answer_.data(), static_cast<std::size_t>(length));
        while (rest.size() >= sizeof(nlmsghdr)) {
            const auto header = read_as<nlmsghdr>(rest);
            if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) break;
            const auto body = rest.subspan(sizeof header, header.nlmsg_len - sizeof header);
            if (header.nlmsg_type == NLMSG_DONE) return {};
            if (header.nlmsg_type == NLMSG_ERROR) {
                errno = -read_as<nlmsgerr>(body).error;
                if (errno == ENOENT) return {};  // a kernel without this family
                return fail_errno("sock_diag: sockets can't be listed");
            }
            take(body);
            rest = rest.subspan(std::min(rest.size(), aligned(header.nlmsg_len)));
        }
    }
}

Result<PacketDiagnosis> SockDiag::packet_socket(ino_t inode) {
    struct {
        nlmsghdr header{};
        packet_diag_req body{};
    } request;
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.body.sdiag_family = AF_PACKET;
    request.body.pdiag_show = PACKET_SHOW_INFO | PACKET_SHOW_MCLIST | PACKET_SHOW_RING_CFG;
    std::optional<PacketDiagnosis> found;
    auto done = list(&request, sizeof request, [&](std::span<const char> body) {
        if (read_as<packet_diag_msg>(body).pdiag_ino != inode) return;
        auto& socket = found.emplace();
        const auto attributes = body.subspan(std::min(body.size(), aligned(sizeof(packet_diag_msg))));
        each_attribute(attributes, [&](int type, std::span<const char> value) {
            if (type == PACKET_DIAG_INFO) socket.info = read_as<packet_diag_info>(value);
            if (type == PACKET_DIAG_RX_RING) socket.receive_ring = read_as<packet_diag_ring>(value);
            if (type == PACKET_DIAG_TX_RING) socket.transmit_ring = true;
            if (type != PACKET_DIAG_MCLIST) return;
            for (; value.size() >= sizeof(packet_diag_mclist);
                 value = value.subspan(sizeof(packet_diag_mclist))) {
                const auto each = read_as<packet_diag_mclist>(value);
                const auto length = std::min<std::size_t>(each.pdmc_alen, sizeof each.pdmc_addr);
                socket.memberships.push_back({static_cast<unsigned>(each.pdmc_index),
                                              each.pdmc_type,
                                              each.pdmc_count,
                                              {reinterpret_cast<const char*>(each.pdmc_addr), length}});
            }
        });
    });
    if (!done) return std::unexpected(std::move(done.error()));
    if (!found)
        return fail_code(
            ExitCode::refused,
            "the kernel doesn't tell what it has joined (CONFIG_PACKET_DIAG), so it can't be saved");
    return std::move(*found);
}

Result<std::vector<InternetDiagnosis>> SockDiag::tcp_sockets() {
    std::vector<InternetDiagnosis> found;
    for (const int family : {AF_INET, AF_INET6}) {
        struct {
            nlmsghdr header{};
            inet_diag_req_v2 body{};
        } request;
        request.header.nlmsg_len = sizeof request;
        request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
        request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
        request.body.sdiag_family = static_cast<__u8>(family);
        request.body.sdiag_protocol = IPPROTO_TCP;
        request.body.idiag_ext = 1 << (INET_DIAG_INFO - 1);
        request.body.idiag_states = ~0U;
        auto done = list(&request, sizeof request,
                         [&](std::span<const char> body) { found.push_back(internet_of(body)); });
        if (!done) return std::unexpected(std::move(done.error()));
    }
    return found;
}

}  // namespace cairn::capture
