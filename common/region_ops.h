// What is done to the region by several programs: slots claimed, found, given back; ids translated.
//
// Used by the hijack library too: inline, no allocation, no libstdc++ symbols, lock-free. A process may be
// killed between any two instructions, so nothing here is ever locked.
#pragma once

#include "common/ids.h"
#include "common/region.h"

namespace cairn {

inline constexpr std::int32_t no_slot = -1;

// Time namespaces that restarts have made for the session's programs (Region::time_namespaces).
inline bool is_given_time(const Region& region, std::uint64_t space) {
    for (const auto& each : region.time_namespaces)
        if (space != 0 && each.load(std::memory_order_relaxed) == space) return true;
    return false;
}
// The oldest is forgotten where there are too many.
inline void give_time(Region& region, std::uint64_t space) {
    for (std::uint32_t i = given_times - 1; i > 0; --i)
        region.time_namespaces[i].store(region.time_namespaces[i - 1].load());
    region.time_namespaces[0].store(space);
}

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

// Index in Region::slot_by_pid.
inline std::uint32_t pid_hint(KernelId pid) {
    return static_cast<std::uint32_t>(pid.number()) % pid_hint_size;
}

// The slot of a process, or no_slot. A slot whose process has gone and that the coordinator has not emptied
// yet (it may be dead) is found as well.
inline std::int32_t find_slot(const Region& region, KernelId pid) {
    const auto holds = [&](std::uint32_t index) {
        const Slot& slot = region.slots[index];
        return slot.pid.load(std::memory_order_acquire) == pid.number() &&
               slot.state.load(std::memory_order_acquire) != SlotState::free;
    };
    if (!pid.known()) return no_slot;
    const std::uint32_t hint = region.slot_by_pid[pid_hint(pid)].load(std::memory_order_relaxed);
    if (hint < slot_count && holds(hint)) return static_cast<std::int32_t>(hint);
    if (region.pid_collisions.load(std::memory_order_acquire) == 0) return no_slot;
    const std::uint32_t end = region.slots_end.load(std::memory_order_acquire);
    for (std::uint32_t index = 0; index < end && index < slot_count; ++index)
        if (holds(index)) return static_cast<std::int32_t>(index);
    return no_slot;
}

// A slot in state birth with all fields empty but the parent's pid, what a child inherits of its parent's
// flags, and a token of its own as pid, or no_slot if all are in use (counted in Region::overflow). A slot is
// always claimed as birth first, so that nobody sees a running one half filled. The token tells this birth
// from a later one in the same slot: a parent that comes back from fork late finds its child dead and the
// slot given to somebody else.
inline std::int32_t claim_slot(Region& region, KernelId parent) {
    const std::uint32_t slots = slots_of(region);
    const std::uint32_t begin = region.slots_in_use_hint.load(std::memory_order_relaxed) % slots;
    for (std::uint32_t n = 0; n < slots; ++n) {
        const std::uint32_t index = (begin + n) % slots;
        Slot& slot = region.slots[index];
        SlotState expected = SlotState::free;
        if (slot.state.load(std::memory_order_relaxed) != SlotState::free ||
            !slot.state.compare_exchange_strong(expected, SlotState::birth, std::memory_order_acq_rel))
            continue;
        if (const auto its = find_slot(region, parent); its != no_slot)
            slot.flags.fetch_or(region.slots[its].flags.load(std::memory_order_relaxed) & slot_restricts);
        slot.parent_pid.store(parent.number(), std::memory_order_relaxed);
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
    if (const KernelId pid(slot.pid.load(std::memory_order_relaxed)); pid.known())
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

// Writes the pid of a slot and where to look for it.
inline void name_slot(Region& region, std::int32_t index, KernelId pid) {
    region.slots[index].pid.store(pid.number(), std::memory_order_release);
    if (!pid.known()) return;
    const std::uint32_t place = pid_hint(pid);
    const std::uint32_t before = region.slot_by_pid[place].exchange(static_cast<std::uint16_t>(index));
    if (before >= slot_count || before == static_cast<std::uint32_t>(index)) return;
    const KernelId other(region.slots[before].pid.load(std::memory_order_acquire));
    if (other.known() && other != pid && pid_hint(other) == place)
        region.pid_collisions.fetch_add(1, std::memory_order_acq_rel);
}

// A slot and the token of the birth that it was claimed for. Without a slot the token still says in which
// life the birth was; 0: it was not announced.
struct Birthplace {
    std::int32_t slot = no_slot;
    std::int32_t token = 0;
};

// Whether a birth was announced in an earlier life: the parent or the child was saved in the middle of it,
// and the restart has given both their slots and names.
inline bool of_earlier_life(const Region& region, const Birthplace& place) {
    return place.token != 0 && static_cast<std::uint32_t>(first_token - place.token) / token_count !=
                                   region.life.load(std::memory_order_acquire) % life_count;
}

inline Birthplace claim_birth(Region& region, KernelId parent) {
    const std::int32_t index = claim_slot(region, parent);
    if (index == no_slot) return {no_slot, new_token(region)};
    return {index, region.slots[index].pid.load(std::memory_order_acquire)};
}

// A birth that any child of `parent` may take that posix_spawn makes.
inline Birthplace claim_spawn_birth(Region& region, KernelId parent) {
    const Birthplace place = claim_birth(region, parent);
    if (place.slot == no_slot) return place;
    region.spawn_births.fetch_add(1, std::memory_order_acq_rel);
    region.slots[place.slot].flags.fetch_or(slot_vfork | slot_spawn, std::memory_order_release);
    return place;
}

// A birth that `parent` has announced for posix_spawn and that no child has taken yet; takes it for
// `pid`. The births of one parent are alike, whichever child takes which.
inline std::int32_t take_spawn_birth(Region& region, KernelId parent, KernelId pid) {
    if (region.spawn_births.load(std::memory_order_acquire) == 0) return no_slot;
    const std::uint32_t end = region.slots_end.load(std::memory_order_acquire);
    for (std::uint32_t index = 0; index < end && index < slot_count; ++index) {
        Slot& slot = region.slots[index];
        std::int32_t token = slot.pid.load(std::memory_order_acquire);
        if (token <= first_token && slot.state.load(std::memory_order_acquire) == SlotState::birth &&
            slot.parent_pid.load(std::memory_order_acquire) == parent.number() &&
            (slot.flags.load(std::memory_order_acquire) & slot_spawn) != 0 &&
            slot.pid.compare_exchange_strong(token, pid.number(), std::memory_order_acq_rel)) {
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

// Who goes by this number among the programs, who has it in the kernel; not known() if the map doesn't say.
inline KernelId bound_to(const IdMap& ids, ProgramId program) {
    return KernelId(id_map::get(ids.by_virtual, program.number()));
}
inline ProgramId bound_to(const IdMap& ids, KernelId kernel) {
    return ProgramId(id_map::get(ids.by_real, kernel.number()));
}

// Forgets that programs know `kernel` as `program`.
inline void remove_id(IdMap& ids, ProgramId program, KernelId kernel) {
    id_map::drop(ids.by_real, kernel.number(), program.number());
    if (id_map::drop(ids.by_virtual, program.number(), kernel.number()))
        ids.used.fetch_sub(1, std::memory_order_acq_rel);
}

// Makes `program` the programs' name for `kernel`. False if the map is full. What either was bound to before
// is forgotten.
inline bool insert_id(IdMap& ids, ProgramId program, KernelId kernel) {
    const KernelId old_kernel = bound_to(ids, program);
    const ProgramId old_program = bound_to(ids, kernel);
    if (old_kernel == kernel && old_program == program) return true;
    if (old_kernel.known()) remove_id(ids, program, old_kernel);
    if (old_program.known()) remove_id(ids, old_program, kernel);
    if (!id_map::put(ids.by_virtual, program.number(), kernel.number()) ||
        !id_map::put(ids.by_real, kernel.number(), program.number()))
        return false;
    ids.used.fetch_add(1, std::memory_order_acq_rel);
    return true;
}

// An id that nobody ever has (pid_max is at most 2^22): what a program means that asks for a number which is
// only the kernel's name for somebody.
inline constexpr KernelId nobody{0x7fffffff};

// What the kernel calls whom a program knows; the same number if the map doesn't know it. 0 and below are not
// ids.
inline KernelId kernel_id(const IdMap& ids, ProgramId program) {
    const KernelId same = kernel_id_of_same_number(program);
    if (ids.used.load(std::memory_order_acquire) == 0 || !program.known()) return same;
    const KernelId bound = bound_to(ids, program);
    if (bound.known()) return bound;
    return bound_to(ids, same).known() ? nobody : same;
}

// The number at the end of the chain of those who have each other's numbers, beginning with `kernel`.
inline ProgramId newcomers_name(const IdMap& ids, KernelId kernel) {
    ProgramId name = program_id_of_same_number(kernel);
    for (std::uint32_t n = 0; n < id_map_size; ++n) {
        const KernelId other = bound_to(ids, name);
        if (!other.known() || other == kernel) break;  // `kernel`: it has its name already
        name = program_id_of_same_number(other);
    }
    return name;
}

// What programs call whom the kernel knows. Whom the map doesn't know goes by his own number, but where that
// is somebody else's among the programs: a stranger (the restart tool, a shell outside) is never taken for a
// member, and a newcomer gets the name that name_newcomer() is about to give it.
inline ProgramId program_id(const IdMap& ids, KernelId kernel) {
    if (ids.used.load(std::memory_order_acquire) == 0 || !kernel.known())
        return program_id_of_same_number(kernel);
    const ProgramId bound = bound_to(ids, kernel);
    return bound.known() ? bound : newcomers_name(ids, kernel);
}

// Called for each new process or thread, by itself, its parent or both, before anybody translates its id. An
// entry for this id is then a dead one's: the kernel doesn't give a number out that is still in use as a pid,
// tid, group or session. And where the number is somebody else's among the programs, the newcomer can't go by
// it: it gets the number at the end of the chain of those who have each other's numbers, which by
// construction nobody goes by. Returns what the newcomer goes by.
inline ProgramId name_newcomer(IdMap& ids, KernelId kernel) {
    if (ids.used.load(std::memory_order_acquire) == 0) return program_id_of_same_number(kernel);
    const ProgramId stale = bound_to(ids, kernel), name = newcomers_name(ids, kernel);
    if (stale == name) return name;
    if (stale.known()) remove_id(ids, stale, kernel);
    if (!same_number(name, kernel)) insert_id(ids, name, kernel);
    return name;
}

// What the process of a slot believes its pid to be; not known() if it has not been named.
inline ProgramId program_pid(const Slot& slot) {
    return ProgramId(static_cast<std::int32_t>(slot.name.load(std::memory_order_acquire) & 0xffffffffU));
}

inline void set_program_pid(Slot& slot, KernelId pid, ProgramId name) {
    slot.name.store(
        static_cast<std::uint64_t>(pid.number()) << 32 | static_cast<std::uint32_t>(name.number()),
        std::memory_order_release);
}

// name_newcomer for the process of a slot; parent and child may both come here, at the same time. Returns
// what the process goes by, which the slot then says. A parent may come so late that the slot is another
// process's: the kernel's pid in the word tells, and the slot's owner takes it over from such a one.
inline ProgramId name_process(Region& region, std::int32_t index, KernelId pid) {
    constexpr std::uint32_t under_way = ~0U;
    Slot& slot = region.slots[index];
    const std::uint64_t mine = static_cast<std::uint64_t>(pid.number()) << 32;
    std::uint64_t claimed = mine | under_way;
    for (int patience = 1'000'000; patience > 0; --patience) {
        std::uint64_t found = slot.name.load(std::memory_order_acquire);
        if (slot.pid.load(std::memory_order_acquire) != pid.number()) return program_id(region.ids, pid);
        if (found >> 32 != static_cast<std::uint32_t>(pid.number())) {
            if (slot.name.compare_exchange_strong(found, claimed, std::memory_order_acq_rel)) break;
            continue;
        }
        if (static_cast<std::uint32_t>(found) != under_way)
            return ProgramId(static_cast<std::int32_t>(found));
        __builtin_ia32_pause();  // the other side was killed in the middle of it if this takes long
    }
    const ProgramId given = name_newcomer(region.ids, pid);
    slot.name.compare_exchange_strong(claimed, mine | static_cast<std::uint32_t>(given.number()),
                                      std::memory_order_acq_rel);
    return given;
}

}  // namespace cairn
