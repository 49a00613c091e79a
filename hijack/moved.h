// Addresses of hosts that a restart has found elsewhere (common/socket_names.h): programs go on using those
// that they know, in calls and in what they are told.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>

#include "common/socket_names.h"
#include "hijack/resident.h"

namespace cairn::hijack {

// The table, while a host has moved; null costs one load.
inline const SocketNames* moved_hosts() {
    Region* shared = region();
    return shared == nullptr || shared->sockets.moved.load(std::memory_order_relaxed) == 0 ? nullptr
                                                                                           : &shared->sockets;
}

// Where the address of the host is in a sockaddr; IPv4 in IPv6 counts as IPv4.
struct HostBytes {
    std::uint32_t family = 0, size = 0;
    std::uint8_t* bytes = nullptr;
};
inline HostBytes host_bytes(void* address, std::size_t size) {
    auto* at = static_cast<std::uint8_t*>(address);
    sa_family_t family = AF_UNSPEC;
    if (at == nullptr || size < sizeof(sockaddr_in)) return {};
    std::memcpy(&family, at, sizeof family);
    if (family == AF_INET) return {AF_INET, 4, at + offsetof(sockaddr_in, sin_addr)};
    constexpr std::size_t end = offsetof(sockaddr_in6, sin6_addr) + sizeof(in6_addr);
    if (family != AF_INET6 || size < end) return {};
    auto* six = at + offsetof(sockaddr_in6, sin6_addr);
    bool mapped = six[10] == 0xff && six[11] == 0xff;
    for (int i = 0; i < 10; ++i) mapped &= six[i] == 0;
    if (mapped) return {AF_INET, 4, six + 12};
    return {AF_INET6, 16, six};
}

// The address of where a host is now, if the program speaks of one that has moved.
class MovedAddress {
  public:
    MovedAddress(const void* address, socklen_t size) {
        const SocketNames* table = moved_hosts();
        if (table == nullptr || address == nullptr || size > sizeof storage_) return;
        std::memcpy(&storage_, address, size);
        const HostBytes host = host_bytes(&storage_, size);
        const MovedHost* found =
            host.bytes == nullptr ? nullptr : find_moved_host(*table, host.family, host.bytes, host.size);
        if (found == nullptr) return;
        std::memcpy(host.bytes, found->now, host.size);
        moved_ = true;
    }
    [[nodiscard]] bool moved() const { return moved_; }
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }

  private:
    sockaddr_storage storage_;  // filled only when a host has moved
    bool moved_ = false;
};

// What the kernel has told of a peer, or of ourselves: as programs know that host. `room`: what there was for
// it, `size`: the whole length.
inline void tell_known(void* address, socklen_t room, socklen_t size) {
    const SocketNames* table = moved_hosts();
    if (table == nullptr) return;
    const HostBytes host = host_bytes(address, room < size ? room : size);
    if (host.bytes == nullptr) return;
    if (const MovedHost* found = find_known_host(*table, host.family, host.bytes, host.size))
        std::memcpy(host.bytes, found->known, host.size);
}

}  // namespace cairn::hijack
