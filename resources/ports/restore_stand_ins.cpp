#include "resources/ports/restore_stand_ins.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "resources/socket/restore.h"
#include "resources/socket/schema.h"

namespace cairn::restart {

Fd StandIns::speak_for(const Address& from, int protocol) {
    Fd fd(::socket(from.domain(), SOCK_DGRAM | SOCK_CLOEXEC, protocol));
    if (!fd) return fd;
    set_int(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(fd.get(), from.name(), from.length()) == 0) return fd;
    const bool four = from.domain() == AF_INET;
    // IPv6 asks nobody who he is when he sends, if only he may be bound (IPV6_FREEBIND, since Linux 4.15).
    const int on = 1;
    if (::setsockopt(fd.get(), four ? IPPROTO_IP : IPPROTO_IPV6,
                     four ? IP_TRANSPARENT : schema::ipv6_freebind, &on, sizeof on) == 0)
        return ::bind(fd.get(), from.name(), from.length()) == 0 ? std::move(fd) : Fd();
    if (!four) return {};
    const Address instead = instead_of(from);
    return !instead.empty() && ::bind(fd.get(), instead.name(), instead.length()) == 0 ? std::move(fd) : Fd();
}

// 127.202.0.0/16 with the same port; empty: there are too many.
Address StandIns::instead_of(const Address& from) {
    if (names_ == nullptr) return {};
    const std::string host = from.with_port(0).words();
    if (const auto known = known_.find(host); known != known_.end())
        return known->second.with_port(from.port());
    // What programs call this address, if it is that of a host that has moved.
    const auto bytes = from.host_bytes().first;
    std::array<std::uint8_t, 4> called{};
    const MovedHost* moved = find_known_host(*names_, AF_INET, bytes.data(), 4);
    std::copy_n(moved != nullptr ? moved->known : bytes.data(), 4, called.begin());
    for (std::uint32_t n = 1; n < 0xffff; ++n) {
        const std::array<std::uint8_t, 4> now = {127, 202, static_cast<std::uint8_t>(n >> 8),
                                                 static_cast<std::uint8_t>(n)};
        if (find_known_host(*names_, AF_INET, now.data(), 4) != nullptr) continue;
        if (!add_moved_host(*names_, AF_INET | only_seen, called.data(), now.data(), 4)) return {};
        char text[INET_ADDRSTRLEN] = "";
        ::inet_ntop(AF_INET, now.data(), text, sizeof text);
        return known_.emplace(host, Address::parse(text, 0)).first->second.with_port(from.port());
    }
    return {};
}

}  // namespace cairn::restart
