// Names of sockets in the region: written by a restart, read by getsockname(2) and its like and by the
// capture.
//
// Used by the hijack library too: inline, no allocation, no libstdc++ symbols, lock-free.
#pragma once

#include "common/region.h"

namespace cairn {

inline const SocketName* find_socket_name(const SocketNames& table, std::uint64_t cookie) {
    if (cookie <= 1 || table.used.load(std::memory_order_acquire) == 0) return nullptr;
    for (std::uint32_t n = 0; n < socket_name_count; ++n) {
        const SocketName& entry = table.names[(cookie + n) % socket_name_count];
        const std::uint64_t found = entry.cookie.load(std::memory_order_acquire);
        if (found == cookie) return &entry;
        if (found == 0) return nullptr;
    }
    return nullptr;
}

// Lengths above socket_name_size are no Internet address and are left out. False: the table is full.
inline bool add_socket_name(SocketNames& table, std::uint64_t cookie, const void* own,
                            std::uint32_t own_length, const void* peer, std::uint32_t peer_length) {
    if (cookie <= 1) return false;
    const auto copy = [](std::uint8_t* to, std::uint8_t& length, const void* from, std::uint32_t size) {
        length = size <= socket_name_size ? static_cast<std::uint8_t>(size) : 0;
        const auto* bytes = static_cast<const std::uint8_t*>(from);
        for (std::uint32_t i = 0; i < length; ++i) to[i] = bytes[i];
    };
    for (std::uint32_t n = 0; n < socket_name_count; ++n) {
        SocketName& entry = table.names[(cookie + n) % socket_name_count];
        std::uint64_t expected = 0;
        if (!entry.cookie.compare_exchange_strong(expected, 1, std::memory_order_acq_rel)) continue;
        copy(entry.own, entry.own_length, own, own_length);
        copy(entry.peer, entry.peer_length, peer, peer_length);
        entry.cookie.store(cookie, std::memory_order_release);
        table.used.fetch_add(1, std::memory_order_release);
        return true;
    }
    return false;
}

// In MovedHost::family: only what comes from `now` is said to come from `known`; who calls `known` gets
// there.
inline constexpr std::uint32_t only_seen = 0x10000;

// The bytes of an address, 4 or 16; family: AF_INET or AF_INET6, | only_seen. False: the table is full.
inline bool add_moved_host(SocketNames& table, std::uint32_t family, const std::uint8_t* known,
                           const std::uint8_t* now, std::uint32_t size) {
    const std::uint32_t count = table.moved.load(std::memory_order_acquire);
    if (count >= moved_host_count || size > 16) return false;
    MovedHost& host = table.hosts[count];
    for (std::uint32_t i = 0; i < size; ++i) {
        host.known[i] = known[i];
        host.now[i] = now[i];
    }
    host.family.store(family, std::memory_order_release);
    table.moved.store(count + 1, std::memory_order_release);
    return true;
}

inline bool same_address(const std::uint8_t* a, const std::uint8_t* b, std::uint32_t size) {
    bool same = true;
    for (std::uint32_t i = 0; i < size; ++i) same &= a[i] == b[i];
    return same;
}

// Where the host is now that programs know by this address.
inline const MovedHost* find_moved_host(const SocketNames& table, std::uint32_t family,
                                        const std::uint8_t* address, std::uint32_t size) {
    const std::uint32_t count = table.moved.load(std::memory_order_acquire);
    for (std::uint32_t n = 0; n < count && n < moved_host_count; ++n) {
        const MovedHost& host = table.hosts[n];
        if (host.family.load(std::memory_order_acquire) == family && same_address(host.known, address, size))
            return &host;
    }
    return nullptr;
}

// By which address programs know the host that is at this one now. Where several parts have come to one host
// that is the first of them: their addresses are one now.
inline const MovedHost* find_known_host(const SocketNames& table, std::uint32_t family,
                                        const std::uint8_t* address, std::uint32_t size) {
    const std::uint32_t count = table.moved.load(std::memory_order_acquire);
    for (std::uint32_t n = 0; n < count && n < moved_host_count; ++n) {
        const MovedHost& host = table.hosts[n];
        if ((host.family.load(std::memory_order_acquire) & ~only_seen) == family &&
            same_address(host.now, address, size))
            return &host;
    }
    return nullptr;
}

// Only when nobody who could look them up is left.
inline void clear_socket_names(SocketNames& table) {
    table.moved.store(0, std::memory_order_release);
    if (table.used.exchange(0) == 0) return;
    for (SocketName& entry : table.names) entry.cookie.store(0, std::memory_order_relaxed);
}

}  // namespace cairn
