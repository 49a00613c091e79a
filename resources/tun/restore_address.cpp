#include "resources/tun/restore_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/fd.h"

namespace cairn::restart {
namespace {

// Those that are somebody's wish; the others are the kernel's, about what it is doing with the address.
constexpr std::uint32_t wished_flags =
    IFA_F_NODAD | IFA_F_NOPREFIXROUTE | IFA_F_HOMEADDRESS | IFA_F_MCAUTOJOIN;

struct AddressRequest {
    nlmsghdr header{};
    ifaddrmsg head{};
    char attributes[256] = "";
    std::size_t used = 0;  // not sent

    void add(std::uint16_t type, const void* bytes, std::size_t size) {
        const rtattr attribute{static_cast<std::uint16_t>(sizeof attribute + size), type};
        if (size == 0 || used + sizeof attribute + size + 3 > sizeof attributes) return;
        std::memcpy(attributes + used, &attribute, sizeof attribute);
        std::memcpy(attributes + used + sizeof attribute, bytes, size);
        used += (sizeof attribute + size + 3) / 4 * 4;
    }
    // Errors in errno.
    bool send_request(std::uint16_t type, int flags) {
        header.nlmsg_len = static_cast<std::uint32_t>(sizeof header + sizeof head + used);
        header.nlmsg_type = type;
        header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
        const Fd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_ROUTE));
        char answer[4096];
        if (!netlink || ::send(netlink.get(), this, header.nlmsg_len, 0) < 0) return false;
        const ssize_t got = ::recv(netlink.get(), answer, sizeof answer, 0);
        if (got < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(int))) return false;
        int error = 0;  // nlmsgerr::error
        std::memcpy(&error, answer + sizeof(nlmsghdr), sizeof error);
        errno = -error;
        return error == 0;
    }
};

std::string address_text(const schema::TunAddress& address) {
    char text[INET6_ADDRSTRLEN] = "?";
    if (address.own.size() == (address.family == AF_INET ? 4U : 16U))
        ::inet_ntop(address.family, address.own.data(), text, sizeof text);
    return fmt::format("{}/{}", text, address.prefix);
}

schema::Bytes bytes_of(const sockaddr* name) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(name);
    if (name->sa_family == AF_INET)
        return {begin + offsetof(sockaddr_in, sin_addr), begin + offsetof(sockaddr_in, sin_addr) + 4};
    return {begin + offsetof(sockaddr_in6, sin6_addr), begin + offsetof(sockaddr_in6, sin6_addr) + 16};
}

AddressRequest request_of(unsigned index, const schema::TunAddress& address, std::uint32_t flags) {
    AddressRequest request;
    request.head.ifa_family = address.family;
    request.head.ifa_prefixlen = address.prefix;
    request.head.ifa_scope = address.scope;
    request.head.ifa_index = index;
    request.add(IFA_FLAGS, &flags, sizeof flags);
    request.add(IFA_LOCAL, address.own.data(), address.own.size());
    request.add(IFA_ADDRESS, address.peer.data(), address.peer.size());
    request.add(IFA_BROADCAST, address.broadcast.data(), address.broadcast.size());
    if (!address.label.empty()) request.add(IFA_LABEL, address.label.c_str(), address.label.size() + 1);
    const ifa_cacheinfo times{
        .ifa_prefered = address.preferred, .ifa_valid = address.valid, .cstamp = 0, .tstamp = 0};
    request.add(IFA_CACHEINFO, &times, sizeof times);
    return request;
}

}  // namespace

Result<> add_tun_address(unsigned index, const schema::TunAddress& address) {
    auto request = request_of(
        index, address, (address.flags & wished_flags) | (address.family == AF_INET6 ? IFA_F_NODAD : 0U));
    if (request.send_request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE)) return {};
    return fail_errno("address {}", address_text(address));
}

void remove_other_addresses(const std::string& name, unsigned index,
                            const std::vector<schema::TunAddress>& wanted) {
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return;
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        // IPv4 has none that nobody has set.
        if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET6 || each->ifa_name != name)
            continue;
        const schema::Bytes own = bytes_of(each->ifa_addr);
        if (std::ranges::any_of(wanted, [&](const schema::TunAddress& one) { return one.own == own; }))
            continue;
        AddressRequest request;
        request.head.ifa_family = AF_INET6;
        request.head.ifa_prefixlen = 64;  // a link's, as the kernel makes them
        request.head.ifa_index = index;
        request.add(IFA_LOCAL, own.data(), own.size());
        request.send_request(RTM_DELADDR, 0);
    }
    ::freeifaddrs(all);
}

void settle_addresses(unsigned index, const std::vector<schema::TunAddress>& wanted) {
    for (const schema::TunAddress& address : wanted)
        if (address.family == AF_INET6 && (address.flags & IFA_F_NODAD) == 0)
            request_of(index, address, address.flags & wished_flags).send_request(RTM_NEWADDR, NLM_F_REPLACE);
}

}  // namespace cairn::restart
