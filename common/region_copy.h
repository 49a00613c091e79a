// What every region of a session has to say alike: what programs call processes, System V objects and
// sockets.
#pragma once

#include "common/region_ops.h"

namespace cairn {

// What is in `from` is in `to` as well afterwards; nothing is taken out. Nobody may write into `to`'s tables
// meanwhile but by the operations of region_ops.h and ipc_map.h.
inline void copy_ids(const IdMap& from, IdMap& to) {
    if (from.used.load(std::memory_order_acquire) == 0) return;
    for (const IdEntry& entry : from.by_virtual) {
        const ProgramId known(entry.key.load(std::memory_order_acquire));
        const KernelId kernel(entry.value.load(std::memory_order_acquire));
        if (known.known() && kernel.known()) insert_id(to, known, kernel);
    }
}

inline void copy_ipc(const IpcMap& from, IpcMap& to) {
    const std::uint32_t end = from.end.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < end && i < ipc_map_size; ++i) {
        const std::uint64_t known = from.entries[i].known.load(std::memory_order_acquire);
        const std::int32_t real = from.entries[i].real.load(std::memory_order_acquire);
        if (known == 0) continue;
        const IpcEntry* there = find_ipc(to, known);
        if (there == nullptr || there->real.load(std::memory_order_acquire) != real)
            bind_ipc(to, ipc_kind(known), ipc_id(known), real);
    }
}

// The promises of processes of which `is_theirs` is true.
template <class IsTheirs>
void copy_undo(const IpcMap& from, IpcMap& to, IsTheirs is_theirs) {
    if (from.promised.load(std::memory_order_acquire) == 0) return;
    for (const UndoEntry& entry : from.undo) {
        const KernelId pid(entry.pid.load(std::memory_order_acquire));
        if (pid.known() && is_theirs(pid))
            promise_undo(to, pid, entry.semaphore.load(), entry.adjust.load(std::memory_order_acquire));
    }
}

// Sockets keep their names until all are forgotten, so an entry that is there is the same in both.
inline void copy_sockets(const SocketNames& from, SocketNames& to) {
    for (std::uint32_t i = 0; i < moved_host_count; ++i) {
        const auto& host = from.hosts[i];
        if (host.family.load(std::memory_order_acquire) == 0) continue;
        __builtin_memcpy(to.hosts[i].known, host.known, sizeof host.known);
        __builtin_memcpy(to.hosts[i].now, host.now, sizeof host.now);
        to.hosts[i].family.store(host.family.load(), std::memory_order_release);
    }
    for (std::uint32_t i = 0; i < socket_name_count; ++i) {
        constexpr std::uint64_t being_filled = 1;
        const SocketName& name = from.names[i];
        const std::uint64_t cookie = name.cookie.load(std::memory_order_acquire);
        if (cookie <= being_filled || to.names[i].cookie.load(std::memory_order_acquire) == cookie) continue;
        to.names[i].own_length = name.own_length;
        to.names[i].peer_length = name.peer_length;
        __builtin_memcpy(to.names[i].own, name.own, sizeof name.own);
        __builtin_memcpy(to.names[i].peer, name.peer, sizeof name.peer);
        to.names[i].cookie.store(cookie, std::memory_order_release);
    }
    to.moved.store(from.moved.load(), std::memory_order_release);
    to.used.store(from.used.load(), std::memory_order_release);
}

// From the owner's region to another user's.
inline void copy_names(const Region& from, Region& to) {
    copy_ids(from.ids, to.ids);
    copy_ipc(from.ipc, to.ipc);
    if (from.sockets.used.load() != 0 || from.sockets.moved.load() != 0)
        copy_sockets(from.sockets, to.sockets);
    to.life.store(from.life.load(), std::memory_order_release);
}

}  // namespace cairn
