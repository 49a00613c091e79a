// What is done to the region by several programs: slots claimed, found, given back; ids translated.
//
// Used by the hijack library too: inline, no allocation, no libstdc++ symbols, lock-free. A process may be
// killed between any two instructions, so nothing here is ever locked.
#pragma once

#include "common/region.h"

namespace cairn {

inline constexpr std::int32_t no_slot = -1;

// Futex wait and wake on words of the region: shared between processes, so never FUTEX_PRIVATE_FLAG.
inline long region_futex(std::atomic<std::uint32_t>& word, long operation, long value) {
    constexpr long sys_futex = 202;
    long result = sys_futex;
    register long timeout asm("r10") = 0;
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(&word), "S"(operation), "d"(value), "r"(timeout)
                 : "rcx", "r11", "memory");
    return result;
}

// Tells the coordinator that a slot has changed. Costs a system call, waits for nothing.
inline void announce_change(Region& region) {
    constexpr long futex_wake = 1;
    region.changes.fetch_add(1, std::memory_order_acq_rel);
    region_futex(region.changes, futex_wake, 1);
}

// What the pid of a birth says while no child is known: from first_token downwards.
inline constexpr std::int32_t first_token = -2;
inline constexpr std::uint32_t token_count = 1U << 20;
inline constexpr std::uint32_t life_count = 1U << 10;

// The life that begins with a restart from this generation; another one than that in which the checkpoint was
// taken, whose restart was from an earlier generation.
inline std::uint32_t life_of(std::uint64_t generation) {
    return static_cast<std::uint32_t>(generation % (life_count - 1)) + 1;
}

inline std::int32_t new_token(Region& region) {
    const std::uint32_t life = region.life.load(std::memory_order_acquire) % life_count;
    return first_token -
           static_cast<std::int32_t>(life * token_count + region.tokens.fetch_add(1) % token_count);
}

// How many slots may be used. Whatever the region says: who can write into it can't lead us out of it.
inline std::uint32_t slots_of(const Region& region) {
    const std::uint32_t limit = region.slot_limit.load(std::memory_order_relaxed);
    return limit == 0 || limit > slot_count ? slot_count : limit;
}

// How many of them are not somebody's who has registered: free, or claimed for a child on its way.
inline std::uint32_t places_left(const Region& region, bool births = true) {
    std::uint32_t left = 0;
    for (std::uint32_t index = 0; index < slots_of(region); ++index) {
        const SlotState state = region.slots[index].state.load(std::memory_order_relaxed);
        left += state == SlotState::free || (births && state == SlotState::birth) ? 1 : 0;
    }
    return left;
}

// A slot in state birth with all fields empty but `parent_pid` and a token of its own as pid, or no_slot if
// all are in use (counted in Region::overflow). A slot is always claimed as birth first, so that nobody sees
// a running one half filled. The token tells this birth from a later one in the same slot: a parent that
// comes back from fork late finds its child dead and the slot given to somebody else.
inline std::int32_t claim_slot(Region& region, std::int32_t parent_pid) {
    const std::uint32_t slots = slots_of(region);
    const std::uint32_t begin = region.slots_in_use_hint.load(std::memory_order_relaxed) % slots;
    for (std::uint32_t n = 0; n < slots; ++n) {
        const std::uint32_t index = (begin + n) % slots;
        Slot& slot = region.slots[index];
        SlotState expected = SlotState::free;
        if (slot.state.load(std::memory_order_relaxed) != SlotState::free ||
            !slot.state.compare_exchange_strong(expected, SlotState::birth, std::memory_order_acq_rel))
            continue;
        slot.parent_pid.store(parent_pid, std::memory_order_relaxed);
        slot.pid.store(new_token(region), std::memory_order_release);
        region.slots_in_use_hint.store(index + 1, std::memory_order_relaxed);
        std::uint32_t end = region.slots_end.load(std::memory_order_relaxed);
        while (end <= index && !region.slots_end.compare_exchange_weak(end, index + 1)) {
        }
        return static_cast<std::int32_t>(index);
    }
    region.overflow.fetch_add(1, std::memory_order_relaxed);
    return no_slot;
}

// Empties a slot and gives it back. Only for who owns it: the process itself, the parent of a birth that
// failed, the coordinator when the process has gone.
inline void release_slot(Region& region, std::int32_t index) {
    Slot& slot = region.slots[index];
    if (const std::int32_t pid = slot.pid.load(std::memory_order_relaxed); pid > 0)
        forget_undo(region.ipc, pid);
    slot.pid.store(0, std::memory_order_relaxed);
    slot.parent_pid.store(0, std::memory_order_relaxed);
    slot.image.store(0, std::memory_order_relaxed);
    slot.born_ns.store(0, std::memory_order_relaxed);
    slot.region_at.store(0, std::memory_order_relaxed);
    slot.door.store(0, std::memory_order_relaxed);
    slot.name.store(0, std::memory_order_relaxed);
    slot.flags.store(0, std::memory_order_relaxed);
    slot.foreign[0] = '\0';
    slot.state.store(SlotState::free, std::memory_order_release);
    const auto place = static_cast<std::uint32_t>(index);
    if (place < region.slots_in_use_hint.load(std::memory_order_relaxed))
        region.slots_in_use_hint.store(place, std::memory_order_relaxed);
}

// Notes why the process can't be saved.
inline void explain(Slot& slot, const char* why) {
    std::size_t n = 0;
    for (; n + 1 < sizeof slot.foreign && why[n] != '\0'; ++n) slot.foreign[n] = why[n];
    slot.foreign[n] = '\0';
}

// The slot of the process with this real pid, or no_slot. A slot whose process has gone and that the
// coordinator has not emptied yet (it may be dead) is found as well.
inline std::int32_t find_slot(const Region& region, std::int32_t pid) {
    const auto holds = [&](std::uint32_t index) {
        const Slot& slot = region.slots[index];
        return slot.pid.load(std::memory_order_acquire) == pid &&
               slot.state.load(std::memory_order_acquire) != SlotState::free;
    };
    if (pid <= 0) return no_slot;
    const std::uint32_t hint =
        region.slot_by_pid[static_cast<std::uint32_t>(pid) % pid_hint_size].load(std::memory_order_relaxed);
    if (hint < slot_count && holds(hint)) return static_cast<std::int32_t>(hint);
    if (region.pid_collisions.load(std::memory_order_acquire) == 0) return no_slot;
    const std::uint32_t end = region.slots_end.load(std::memory_order_acquire);
    for (std::uint32_t index = 0; index < end && index < slot_count; ++index)
        if (holds(index)) return static_cast<std::int32_t>(index);
    return no_slot;
}

// Writes the pid of a slot and where to look for it.
inline void name_slot(Region& region, std::int32_t index, std::int32_t pid) {
    region.slots[index].pid.store(pid, std::memory_order_release);
    if (pid <= 0) return;
    const std::uint32_t place = static_cast<std::uint32_t>(pid) % pid_hint_size;
    const std::uint32_t before = region.slot_by_pid[place].exchange(static_cast<std::uint16_t>(index));
    if (before >= slot_count || before == static_cast<std::uint32_t>(index)) return;
    const std::int32_t other = region.slots[before].pid.load(std::memory_order_acquire);
    if (other > 0 && other != pid && static_cast<std::uint32_t>(other) % pid_hint_size == place)
        region.pid_collisions.fetch_add(1, std::memory_order_acq_rel);
}

// A slot and the token of the birth that it was claimed for.
struct Birthplace {
    std::int32_t slot = no_slot;
    std::int32_t token = 0;
};

// Whether a birth was announced in an earlier life: the parent or the child was saved in the middle of it,
// and the restart has given both their slots and names.
inline bool of_earlier_life(const Region& region, const Birthplace& place) {
    return place.slot != no_slot && static_cast<std::uint32_t>(first_token - place.token) / token_count !=
                                        region.life.load(std::memory_order_acquire) % life_count;
}

inline Birthplace claim_birth(Region& region, std::int32_t parent_pid) {
    const std::int32_t index = claim_slot(region, parent_pid);
    if (index == no_slot) return {};
    return {index, region.slots[index].pid.load(std::memory_order_acquire)};
}

// A birth that any child of `parent_pid` may take that posix_spawn makes.
inline std::int32_t claim_spawn_birth(Region& region, std::int32_t parent_pid) {
    const std::int32_t index = claim_slot(region, parent_pid);
    if (index == no_slot) return no_slot;
    region.spawn_births.fetch_add(1, std::memory_order_acq_rel);
    region.slots[index].flags.fetch_or(slot_vfork | slot_spawn, std::memory_order_release);
    return index;
}

// A birth that `parent_pid` has announced for posix_spawn and that no child has taken yet; takes it for
// `pid`. The births of one parent are alike, whichever child takes which.
inline std::int32_t take_spawn_birth(Region& region, std::int32_t parent_pid, std::int32_t pid) {
    if (region.spawn_births.load(std::memory_order_acquire) == 0) return no_slot;
    const std::uint32_t end = region.slots_end.load(std::memory_order_acquire);
    for (std::uint32_t index = 0; index < end && index < slot_count; ++index) {
        Slot& slot = region.slots[index];
        std::int32_t token = slot.pid.load(std::memory_order_acquire);
        if (token <= first_token && slot.state.load(std::memory_order_acquire) == SlotState::birth &&
            slot.parent_pid.load(std::memory_order_acquire) == parent_pid &&
            (slot.flags.load(std::memory_order_acquire) & slot_spawn) != 0 &&
            slot.pid.compare_exchange_strong(token, pid, std::memory_order_acq_rel)) {
            region.spawn_births.fetch_sub(1, std::memory_order_acq_rel);
            name_slot(region, static_cast<std::int32_t>(index), pid);
            return static_cast<std::int32_t>(index);
        }
    }
    return no_slot;
}

namespace id_map {

inline std::uint32_t place_of(std::int32_t id) {
    return (static_cast<std::uint32_t>(id) * 2654435769U >> 7) % id_map_size;
}

// The value of a key, 0 if it has none.
inline std::int32_t get(const IdEntry* table, std::int32_t key) {
    std::uint32_t place = place_of(key);
    for (std::uint32_t n = 0; n < id_map_size; ++n, place = (place + 1) % id_map_size) {
        const std::int32_t found = table[place].key.load(std::memory_order_acquire);
        if (found == key) return table[place].value.load(std::memory_order_acquire);
        if (found == 0) return 0;
    }
    return 0;
}

// False if the table is full. An entry keeps its key for good: an emptied one is only used for the same key
// again, so a search is never led astray by a change under it.
inline bool put(IdEntry* table, std::int32_t key, std::int32_t value) {
    std::uint32_t place = place_of(key);
    for (std::uint32_t n = 0; n < id_map_size; ++n, place = (place + 1) % id_map_size) {
        std::int32_t found = table[place].key.load(std::memory_order_acquire);
        if (found == 0 && table[place].key.compare_exchange_strong(found, key, std::memory_order_acq_rel))
            found = key;
        if (found != key) continue;
        table[place].value.store(value, std::memory_order_release);
        return true;
    }
    return false;
}

// Empties a key's entry if it has this value.
inline bool drop(IdEntry* table, std::int32_t key, std::int32_t value) {
    std::uint32_t place = place_of(key);
    for (std::uint32_t n = 0; n < id_map_size; ++n, place = (place + 1) % id_map_size) {
        const std::int32_t found = table[place].key.load(std::memory_order_acquire);
        if (found == 0) return false;
        if (found != key) continue;
        return table[place].value.compare_exchange_strong(value, 0, std::memory_order_acq_rel);
    }
    return false;
}

}  // namespace id_map

// Forgets that a program knows `real_id` as `virtual_id`.
inline void remove_id(IdMap& ids, std::int32_t virtual_id, std::int32_t real_id) {
    id_map::drop(ids.by_real, real_id, virtual_id);
    if (id_map::drop(ids.by_virtual, virtual_id, real_id)) ids.used.fetch_sub(1, std::memory_order_acq_rel);
}

// Makes `virtual_id` the program's name for `real_id`. False if the map is full. What either was bound to
// before is forgotten.
inline bool insert_id(IdMap& ids, std::int32_t virtual_id, std::int32_t real_id) {
    const std::int32_t old_real = id_map::get(ids.by_virtual, virtual_id);
    const std::int32_t old_virtual = id_map::get(ids.by_real, real_id);
    if (old_real == real_id && old_virtual == virtual_id) return true;
    if (old_real != 0) remove_id(ids, virtual_id, old_real);
    if (old_virtual != 0) remove_id(ids, old_virtual, real_id);
    if (!id_map::put(ids.by_virtual, virtual_id, real_id) || !id_map::put(ids.by_real, real_id, virtual_id))
        return false;
    ids.used.fetch_add(1, std::memory_order_acq_rel);
    return true;
}

// An id that nobody ever has (pid_max is at most 2^22): what a program means that asks for a number which is
// only the kernel's name for somebody.
inline constexpr std::int32_t nobody = 0x7fffffff;

// What the kernel calls the id that a program knows; the id itself if the map doesn't know it. 0 and below
// are not ids.
inline std::int32_t to_real(const IdMap& ids, std::int32_t virtual_id) {
    if (ids.used.load(std::memory_order_acquire) == 0 || virtual_id <= 0) return virtual_id;
    const std::int32_t real = id_map::get(ids.by_virtual, virtual_id);
    if (real != 0) return real;
    return id_map::get(ids.by_real, virtual_id) != 0 ? nobody : virtual_id;
}

// The number at the end of the chain of those who have each other's numbers, beginning with `real_id`.
inline std::int32_t newcomers_name(const IdMap& ids, std::int32_t real_id) {
    std::int32_t name = real_id;
    for (std::uint32_t n = 0; n < id_map_size; ++n) {
        const std::int32_t other = id_map::get(ids.by_virtual, name);
        if (other == 0) break;
        name = other;
    }
    return name;
}

// What the program calls the id that the kernel knows. Whom the map doesn't know goes by his own number, but
// where that is somebody else's virtual id: a stranger (the restart tool, a shell outside) is never taken for
// a member, and a newcomer gets the name that name_newcomer() is about to give it.
inline std::int32_t to_virtual(const IdMap& ids, std::int32_t real_id) {
    if (ids.used.load(std::memory_order_acquire) == 0 || real_id <= 0) return real_id;
    const std::int32_t known = id_map::get(ids.by_real, real_id);
    return known != 0 ? known : newcomers_name(ids, real_id);
}

// Called once for each new process or thread, before anybody translates its real id. An entry for this id is
// then a dead one's: the kernel doesn't give a number out that is still in use as a pid, tid, group or
// session. And where the number is somebody's virtual id, the newcomer can't go by it: it gets the number at
// the end of the chain of those who have each other's numbers, which by construction nobody goes by. Returns
// the newcomer's virtual id.
inline std::int32_t name_newcomer(IdMap& ids, std::int32_t real_id) {
    if (ids.used.load(std::memory_order_acquire) == 0) return real_id;
    const std::int32_t stale = id_map::get(ids.by_real, real_id);
    if (stale != 0) remove_id(ids, stale, real_id);
    const std::int32_t name = newcomers_name(ids, real_id);
    if (name != real_id) insert_id(ids, name, real_id);
    return name;
}

// What the process of a slot believes its pid to be; 0 if it has not been named.
inline std::int32_t virtual_pid(const Slot& slot) {
    return static_cast<std::int32_t>(slot.name.load(std::memory_order_acquire) & 0xffffffffU);
}

inline void set_virtual_pid(Slot& slot, std::int32_t real_pid, std::int32_t name) {
    slot.name.store(static_cast<std::uint64_t>(real_pid) << 32 | static_cast<std::uint32_t>(name),
                    std::memory_order_release);
}

// name_newcomer for the process of a slot; parent and child may both come here, at the same time. Returns the
// virtual pid, which the slot then says. A parent may come so late that the slot is another process's: the
// real pid in the word tells, and the slot's owner takes it over from such a one.
inline std::int32_t name_process(Region& region, std::int32_t index, std::int32_t real_pid) {
    constexpr std::uint32_t under_way = ~0U;
    Slot& slot = region.slots[index];
    const std::uint64_t mine = static_cast<std::uint64_t>(real_pid) << 32;
    std::uint64_t claimed = mine | under_way;
    for (int patience = 1'000'000; patience > 0; --patience) {
        std::uint64_t found = slot.name.load(std::memory_order_acquire);
        if (slot.pid.load(std::memory_order_acquire) != real_pid) return to_virtual(region.ids, real_pid);
        if (found >> 32 != static_cast<std::uint32_t>(real_pid)) {
            if (slot.name.compare_exchange_strong(found, claimed, std::memory_order_acq_rel)) break;
            continue;
        }
        if (static_cast<std::uint32_t>(found) != under_way) return static_cast<std::int32_t>(found);
        __builtin_ia32_pause();  // the other side was killed in the middle of it if this takes long
    }
    const std::int32_t given = name_newcomer(region.ids, real_pid);
    slot.name.compare_exchange_strong(claimed, mine | static_cast<std::uint32_t>(given),
                                      std::memory_order_acq_rel);
    return given;
}

}  // namespace cairn
