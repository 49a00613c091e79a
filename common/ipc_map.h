// System V objects: which ones the members of a session have asked for, what they call them, and what
// SEM_UNDO has promised. Part of the region; used by the hijack library too: lock-free, no allocation, no
// libstdc++ symbols.
//
// Nothing in the kernel says which process uses a semaphore set or a message queue, or what semop(2) will
// undo when it ends; and a restored object may have to take another id than the programs know. Ids may be 0.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/ids.h"

namespace cairn {

inline constexpr std::uint32_t ipc_map_size = 1024, undo_map_size = 4096;

enum class IpcKind : std::uint32_t { memory = 1, semaphores = 2, messages = 3 };

struct IpcEntry {
    std::atomic<std::uint64_t> known;  // IpcKind << 32 | the program's id; 0: free
    std::atomic<std::int32_t> real;    // the kernel's id
};

// What the kernel will add to a semaphore when the process ends (semadj, semop(2)). It outlives an exec.
// There may be several of one process and semaphore: their sum counts.
struct UndoEntry {
    std::atomic<std::int32_t> pid;  // kernel's; 0: free, undo_claimed: being filled
    std::atomic<std::int32_t> adjust;
    std::atomic<std::uint64_t> semaphore;  // undo_key() | undo_space()
};
inline constexpr std::int32_t undo_claimed = -1;

struct IpcMap {
    std::atomic<std::uint32_t> end;         // no entry from here on was ever used
    std::atomic<std::uint32_t> translated;  // entries whose two ids differ
    std::atomic<std::uint32_t> lost;        // ids and promises that found no free entry
    std::atomic<std::uint32_t> promised;    // 0: no promise was ever noted
    IpcEntry entries[ipc_map_size];
    UndoEntry undo[undo_map_size];
};

inline std::uint64_t ipc_key(IpcKind kind, std::int32_t id) {
    return static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint32_t>(id);
}
inline IpcKind ipc_kind(std::uint64_t key) {
    return static_cast<IpcKind>(key >> 32);
}
inline std::int32_t ipc_id(std::uint64_t key) {
    return static_cast<std::int32_t>(key & 0xffffffffU);
}

inline IpcEntry* find_ipc(IpcMap& map, std::uint64_t key) {
    const std::uint32_t end = map.end.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < end && i < ipc_map_size; ++i)
        if (map.entries[i].known.load(std::memory_order_acquire) == key) return &map.entries[i];
    return nullptr;
}

inline IpcEntry* find_ipc_by_real(IpcMap& map, IpcKind kind, std::int32_t real) {
    const std::uint32_t end = map.end.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < end && i < ipc_map_size; ++i) {
        const std::uint64_t known = map.entries[i].known.load(std::memory_order_acquire);
        if (known != 0 && ipc_kind(known) == kind &&
            map.entries[i].real.load(std::memory_order_acquire) == real)
            return &map.entries[i];
    }
    return nullptr;
}

// The program's id to the kernel's. An id that is only the kernel's name for something else is nobody's: -1.
inline std::int32_t ipc_to_real(IpcMap& map, IpcKind kind, std::int32_t id) {
    if (map.translated.load(std::memory_order_acquire) == 0 || id < 0) return id;
    if (const IpcEntry* entry = find_ipc(map, ipc_key(kind, id)))
        return entry->real.load(std::memory_order_acquire);
    return find_ipc_by_real(map, kind, id) != nullptr ? -1 : id;
}

// The kernel's id to the program's.
inline std::int32_t ipc_to_program(IpcMap& map, IpcKind kind, std::int32_t real) {
    if (map.translated.load(std::memory_order_acquire) == 0 || real < 0) return real;
    const IpcEntry* entry = find_ipc_by_real(map, kind, real);
    return entry != nullptr ? ipc_id(entry->known.load(std::memory_order_acquire)) : real;
}

inline void drop_ipc_entry(IpcMap& map, IpcEntry& entry) {
    std::uint64_t known = entry.known.load(std::memory_order_acquire);
    if (known == 0) return;
    const bool differed = entry.real.load(std::memory_order_acquire) != ipc_id(known);
    if (entry.known.compare_exchange_strong(known, 0, std::memory_order_acq_rel) && differed)
        map.translated.fetch_sub(1, std::memory_order_acq_rel);
}

inline void forget_ipc(IpcMap& map, IpcKind kind, std::int32_t program_id) {
    if (IpcEntry* entry = find_ipc(map, ipc_key(kind, program_id))) drop_ipc_entry(map, *entry);
}

// Makes `program_id` the programs' name for `real`; false if the map is full.
inline bool bind_ipc(IpcMap& map, IpcKind kind, std::int32_t program_id, std::int32_t real) {
    forget_ipc(map, kind, program_id);
    if (IpcEntry* stale = find_ipc_by_real(map, kind, real)) drop_ipc_entry(map, *stale);
    for (std::uint32_t i = 0; i < ipc_map_size; ++i) {
        IpcEntry& entry = map.entries[i];
        std::uint64_t expected = 0;
        if (entry.known.load(std::memory_order_relaxed) != 0) continue;
        // Nobody looks for an id that has not been given to anybody yet, so the order of the two stores is
        // ours.
        if (!entry.known.compare_exchange_strong(expected, ipc_key(kind, program_id),
                                                 std::memory_order_acq_rel))
            continue;
        entry.real.store(real, std::memory_order_release);
        std::uint32_t end = map.end.load(std::memory_order_relaxed);
        while (end <= i && !map.end.compare_exchange_weak(end, i + 1)) {
        }
        if (program_id != real) map.translated.fetch_add(1, std::memory_order_acq_rel);
        return true;
    }
    map.lost.fetch_add(1, std::memory_order_relaxed);
    return false;
}

// A program has been given an id by the kernel. What it shall call it.
inline std::int32_t meet_ipc(IpcMap& map, IpcKind kind, std::int32_t real) {
    if (const IpcEntry* entry = find_ipc_by_real(map, kind, real))
        return ipc_id(entry->known.load(std::memory_order_acquire));
    std::int32_t name = real;
    // The number is already the name of something that the kernel calls otherwise.
    for (std::uint32_t n = 0; n < ipc_map_size && find_ipc(map, ipc_key(kind, name)) != nullptr; ++n)
        name = (real | 1 << 30) + static_cast<std::int32_t>(n);
    bind_ipc(map, kind, name, real);
    return name;
}

// What undo_key() has besides for semaphores in an IPC namespace that programs have made for themselves, by
// the namespace's inode: ids of two such may be the same. It is another after each restart.
inline constexpr std::uint64_t undo_in_own = std::uint64_t{1} << 63;
inline std::uint64_t undo_space(std::uint64_t inode) {
    constexpr unsigned place = 48, bits = 15;
    return undo_in_own | ((inode ^ inode >> bits) & ((1U << bits) - 1)) << place;
}

inline std::uint64_t undo_key(std::int32_t program_id, std::uint32_t number) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(program_id)) << 16 | number;
}

inline void promise_undo(IpcMap& map, KernelId pid, std::uint64_t semaphore, std::int32_t adjust) {
    if (map.promised.load(std::memory_order_relaxed) == 0) map.promised.store(1, std::memory_order_release);
    const auto begin = static_cast<std::uint32_t>(semaphore * 2654435769U +
                                                  static_cast<std::uint32_t>(pid.number()) * 40503U);
    for (std::uint32_t n = 0; n < undo_map_size; ++n) {
        UndoEntry& entry = map.undo[(begin + n) % undo_map_size];
        std::int32_t found = entry.pid.load(std::memory_order_acquire);
        if (found == pid.number() && entry.semaphore.load(std::memory_order_acquire) == semaphore) {
            entry.adjust.fetch_add(adjust, std::memory_order_acq_rel);
            return;
        }
        if (found != 0 || !entry.pid.compare_exchange_strong(found, undo_claimed, std::memory_order_acq_rel))
            continue;
        entry.semaphore.store(semaphore, std::memory_order_relaxed);
        entry.adjust.store(adjust, std::memory_order_relaxed);
        entry.pid.store(pid.number(), std::memory_order_release);
        return;
    }
    map.lost.fetch_add(1, std::memory_order_relaxed);
}

// SETVAL and SETALL void all promises for a semaphore (semctl(2)), IPC_RMID those for a set.
template <class Fits>
void void_undo(IpcMap& map, Fits fits) {
    if (map.promised.load(std::memory_order_acquire) == 0) return;
    for (UndoEntry& entry : map.undo)
        if (entry.pid.load(std::memory_order_acquire) > 0 &&
            fits(entry.semaphore.load(std::memory_order_acquire)))
            entry.adjust.store(0, std::memory_order_release);
}

// Whose id is in such a key.
inline std::int32_t undo_semaphores(std::uint64_t key) {
    return static_cast<std::int32_t>(key >> 16 & 0xffffffffU);
}

// The process has ended, and the kernel has kept what was promised.
inline void forget_undo(IpcMap& map, KernelId pid) {
    if (map.promised.load(std::memory_order_acquire) == 0) return;
    for (UndoEntry& entry : map.undo)
        if (entry.pid.load(std::memory_order_acquire) == pid.number())
            entry.pid.store(0, std::memory_order_release);
}

// Nobody is left who could know any.
inline void clear_ipc(IpcMap& map) {
    for (IpcEntry& entry : map.entries) entry.known.store(0, std::memory_order_relaxed);
    for (UndoEntry& entry : map.undo) entry.pid.store(0, std::memory_order_relaxed);
    map.end.store(0, std::memory_order_relaxed);
    map.lost.store(0, std::memory_order_relaxed);
    map.promised.store(0, std::memory_order_relaxed);
    map.translated.store(0, std::memory_order_release);
}

}  // namespace cairn
