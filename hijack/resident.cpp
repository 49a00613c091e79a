#include "hijack/resident.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/agent.h"
#include "common/cpu_level.h"
#include "common/gate_name.h"
#include "common/linker_room.h"
#include "hijack/births.h"
#include "hijack/environment.h"
#include "hijack/gate.h"
#include "hijack/lookup.h"
#include "hijack/raw.h"
#include "hijack/threads.h"
#include "hijack/timing.h"

// agent/agent.cpp: where a capture runs the agent in this process.
extern "C" cairn::Door cairn_door;
extern "C" void cairn_door_open();
// Where the linker has put the headers of this library.
extern "C" [[gnu::visibility("hidden")]] const Elf64_Ehdr __ehdr_start;

namespace cairn::hijack {

constinit Resident resident;

std::uint64_t boottime_ns() {
    struct timespec now = {};
    raw::call(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

namespace {

// When the process began (clock ticks are 1/100 s, proc(5), field 22 of stat), or 0 if /proc can't be read.
std::uint64_t process_start_ns() {
    const long fd = raw::call(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
    if (raw::failed(fd)) return 0;
    char text[1024];
    const long size = raw::call(SYS_read, fd, text, sizeof text - 1);
    raw::call(SYS_close, fd);
    if (size <= 0) return 0;
    text[size] = '\0';
    const char* at = std::strrchr(text, ')');  // the name in parentheses may hold anything
    for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
    std::uint64_t ticks = 0;
    for (at = at == nullptr ? "" : at + 1; *at >= '0' && *at <= '9'; ++at)
        ticks = ticks * 10 + static_cast<std::uint64_t>(*at - '0');
    return ticks * 10'000'000U;
}

// The number in "ipc:[4026531839]"; 0: nobody says.
std::uint64_t own_namespace(const char* path) {
    char link[64];
    const long size = raw::call(SYS_readlink, path, link, sizeof link - 1);
    if (raw::failed(size)) return 0;
    std::uint64_t inode = 0;
    for (long i = 0; i < size; ++i)
        if (link[i] >= '0' && link[i] <= '9') inode = inode * 10 + static_cast<std::uint64_t>(link[i] - '0');
    return inode;
}

// Is the session's coordinator in the pid namespace that we are in? If it doesn't say, it is taken to be. If
// nobody says so to us (there is no /proc, as for a daemon that has gone into an empty root folder), it is
// where somebody knows us or our parent by these ids, or where the one of the region is that has known us so
// far.
bool same_pid_namespace(const Region& region, const Region* known = nullptr) {
    // Who has announced this exec, under this pid and with this parent, has been asked already. To ask again
    // would make the process's folder in /proc, and taking that away when it ends costs more than all the
    // rest of this.
    if (const std::int32_t index = find_slot(region, raw::pid()); index != no_slot) {
        const Slot& slot = region.slots[index];
        if (slot.state.load(std::memory_order_acquire) == SlotState::exec &&
            slot.parent_pid.load(std::memory_order_relaxed) == raw::parent_pid().number())
            return true;
    }
    const std::uint64_t wanted = region.pid_namespace.load(std::memory_order_relaxed);
    if (wanted == 0) return true;
    const std::uint64_t inode = own_namespace("/proc/self/ns/pid");
    if (inode == 0)
        return find_slot(region, raw::pid()) != no_slot || find_slot(region, raw::parent_pid()) != no_slot ||
               (known != nullptr && known->pid_namespace.load(std::memory_order_relaxed) == wanted);
    return inode == wanted;
}

// What every slot of a running process says. `fresh`: the process wasn't known before. Returns what it goes
// by.
ProgramId fill_slot(Region& region, std::int32_t index, KernelId pid, bool fresh) {
    Slot& slot = region.slots[index];
    slot.foreign[0] = '\0';
    slot.flags.fetch_and(~static_cast<std::uint32_t>(slot_vfork | slot_spawn), std::memory_order_relaxed);
    // Under yama's ptrace_scope 1 only descendants may be traced, and a checkpoint's worker is no ancestor.
    // The leave is the process's own and not inherited by a child. EINVAL where there is no yama.
    resident.yama = raw::call(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
    if (fresh || slot.born_ns.load(std::memory_order_relaxed) == 0)
        slot.born_ns.store(boottime_ns(), std::memory_order_relaxed);
    slot.region_at.store(reinterpret_cast<std::uint64_t>(&region), std::memory_order_relaxed);
    slot.door.store(reinterpret_cast<std::uint64_t>(&cairn_door), std::memory_order_relaxed);
    name_slot(region, index, pid);
    const ProgramId name = name_process(region, index, pid);
    if ((slot.flags.load(std::memory_order_relaxed) & slot_restricts) != 0) cairn_door.restricts = 1;
    slot.state.store(SlotState::running, std::memory_order_release);
    resident.pid.store(pid.number(), std::memory_order_relaxed);
    return name;
}

// libc's thread block says the tid that the kernel has written; it has to say the one that the program goes
// by.
void name_main_thread(ProgramId name, KernelId pid) {
    if (!same_number(name, pid)) write_own_tid(name);
}

// A new image of a process, or the first: takes the slot that its own exec or its parent has left for it.
void register_image(Region& region) {
    const KernelId pid = raw::pid();
    std::int32_t index = find_slot(region, pid);
    if (index != no_slot) {
        Slot& slot = region.slots[index];
        // Somebody who is registered as running, and now begins, has execed past our wrappers; or he is
        // another one, who has died while no coordinator was there to empty his slot, and whose pid the
        // kernel gave out again.
        const bool restored = (slot.flags.load(std::memory_order_relaxed) & slot_restored) != 0;
        if (slot.state.load(std::memory_order_acquire) == SlotState::running && !restored &&
            process_start_ns() > slot.born_ns.load(std::memory_order_relaxed)) {
            release_slot(region, index);
            index = no_slot;
        }
    }
    if (index == no_slot) index = take_spawn_birth(region, raw::parent_pid(), pid);
    if (index == no_slot) index = claim_slot(region, raw::parent_pid());
    if (index == no_slot) return;
    region.slots[index].image.fetch_add(1, std::memory_order_relaxed);
    name_main_thread(fill_slot(region, index, pid, false), pid);
    announce_change(region);
}

// Our own copy: a program may write over its environment. Null if there is no such variable, or no room.
const char* keep_path(char*& room, char** environment, const char* name) {
    const char* path = variable(environment, name);
    const std::size_t length = path == nullptr ? 0 : std::strlen(path);
    const auto left = static_cast<std::size_t>(resident.paths + sizeof resident.paths - room);
    if (length == 0 || length >= left) return nullptr;
    char* const copy = room;
    std::memcpy(copy, path, length + 1);
    room += length + 1;
    return copy;
}

// Closes the descriptor. `known` as in same_pid_namespace().
Region* map_region(long fd, const Region* known = nullptr) {
    if (raw::failed(fd)) return nullptr;
    struct stat status = {};
    long at = -1;
    // A shorter file would kill the program with SIGBUS at the first touch.
    if (raw::call(SYS_fstat, fd, &status) == 0 && status.st_size >= static_cast<long>(sizeof(Region)))
        at = raw::call(SYS_mmap, nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    raw::call(SYS_close, fd);
    if (raw::failed(at)) return nullptr;
    // Nothing is to be read ahead (common/map_region.h).
    raw::call(SYS_madvise, at, sizeof(Region), MADV_RANDOM);
    auto* region = reinterpret_cast<Region*>(at);
    if (region->magic == region_magic && region->version == region_version &&
        same_pid_namespace(*region, known))
        return region;
    raw::call(SYS_munmap, at, sizeof(Region));
    return nullptr;
}

Region* find_region(const char* path, const char* gate) {
    // Perhaps a symlink, to a file that has lost its names (coordinator/keeper.h).
    long fd = raw::call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (raw::failed(fd) && gate != nullptr) fd = ask_at_gate(gate);
    // Landlock forbids it, or it isn't in this root folder. Or it is root's, and who has executed this
    // program as another user was a static one, which knows nothing of gates.
    const auto user = static_cast<unsigned>(raw::call(SYS_geteuid));
    if (raw::failed(fd)) fd = ask_at_gate(user, gate_name_of(path).text);
    if (raw::failed(fd) && user != 0) fd = ask_at_gate(0, gate_name_of(path).text);
    return map_region(fd);
}

void note_code(Door& door) {
    const auto base = reinterpret_cast<std::uint64_t>(&__ehdr_start);
    const auto* headers = reinterpret_cast<const Elf64_Phdr*>(base + __ehdr_start.e_phoff);
    for (unsigned i = 0; i < __ehdr_start.e_phnum; ++i) {
        if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_X) == 0) continue;
        door.code_begin = base + headers[i].p_vaddr;
        door.code_end = door.code_begin + headers[i].p_memsz;
    }
}

// glibc 2.35 and later registers an area of each thread for rseq(2), if it may. A kernel before 5.13 tells
// nobody (PTRACE_GET_RSEQ_CONFIGURATION).
std::int32_t rseq_offset() {
    const auto* size = static_cast<const unsigned*>(find_behind_us("__rseq_size"));
    const auto* offset = static_cast<const std::ptrdiff_t*>(find_behind_us("__rseq_offset"));
    return size == nullptr || offset == nullptr || *size == 0 ? 0 : static_cast<std::int32_t>(*offset);
}

[[gnu::constructor]] void enter(int /*argc*/, char** /*argv*/, char** environment) {
    char* room = resident.paths;
    const char* library = keep_path(room, environment, env_library);
    const char* path = keep_path(room, environment, env_region);
    if (library == nullptr || path == nullptr) return;
    resident.library_path = library;
    resident.region_path = path;
    Region* region = find_region(path, variable(environment, env_gate));
    if (region == nullptr) return;
    resident.region = region;
    cairn_door.cpu_tls = thread_cpu_base_offset();
    cairn_door.timing_tls = timing_note_offset();
    cairn_door.rseq_tls = rseq_offset();
    const CpuLevel level =
        kept_cpu_level(variable(environment, env_cpu), variable(environment, env_glibc_tunables));
    cairn_door.cpu_level = static_cast<std::uint32_t>(level);
    cairn_door.linker_room = linker_room_here(level);
    note_code(cairn_door);
    cairn_door_open();
    register_image(*region);
    ::pthread_atfork(nullptr, nullptr, births_in_libc_child);
}

}  // namespace

void user_has_changed() {
    Region* const old = resident.region;
    std::uint32_t ids[3] = {};
    if (old == nullptr || raw::failed(raw::call(SYS_getresuid, &ids[0], &ids[1], &ids[2]))) return;
    for (const std::uint32_t id : ids)
        if (id == old->user) return;  // it can become what it was again
    const KernelId pid = raw::pid();
    const std::int32_t index = own_slot();
    // A child of vfork has its parent's memory; what it executes asks for itself. Who had a slot and has it
    // no more has lost it by what it has just done: the coordinator saw that it isn't the owner's process.
    if (index == no_slot && resident.pid.load(std::memory_order_relaxed) != pid.number()) return;
    Slot* const slot = index == no_slot ? nullptr : &old->slots[index];
    if (slot != nullptr && (slot->state.load(std::memory_order_acquire) != SlotState::running ||
                            (slot->flags.load(std::memory_order_acquire) & slot_vfork) != 0))
        return;
    const int error = errno;
    const long answer = ask_at_gate(old->owner, old->gate);
    Region* const fresh = map_region(answer, old);
    if (fresh == nullptr) {
        // It may have been taken meanwhile.
        if (slot != nullptr && slot->pid.load(std::memory_order_acquire) == pid.number())
            explain(*slot, answer == -EMFILE
                               ? "has become another user when it might open nothing (RLIMIT_NOFILE)"
                               : "has become another user while no coordinator answered");
        resident.region = nullptr;
        // Not a hole: another thread may be looking at it.
        raw::call(SYS_mmap, old, sizeof(Region), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        errno = error;
        return;
    }
    const ProgramId name = program_id(old->ids, pid);
    const std::int32_t place = claim_slot(*fresh, raw::parent_pid());
    if (place != no_slot) {
        Slot& mine = fresh->slots[place];
        if (!same_number(name, pid)) insert_id(fresh->ids, name, pid);
        set_program_pid(mine, pid, name);
        if (slot != nullptr && slot->pid.load(std::memory_order_acquire) == pid.number()) {
            mine.born_ns.store(slot->born_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
            mine.flags.fetch_or(slot->flags.load(std::memory_order_relaxed) &
                                (slot_restored | slot_restricts));
        }
        fill_slot(*fresh, place, pid, false);
        mine.region_at.store(reinterpret_cast<std::uint64_t>(old), std::memory_order_relaxed);
    }
    // At the same address, in one step: other threads look there. Nothing of the old one stays mapped.
    raw::call(SYS_mremap, fresh, sizeof(Region), sizeof(Region), MREMAP_MAYMOVE | MREMAP_FIXED, old);
    announce_change(*old);
    errno = error;
}

bool elsewhere() {
    return resident.root_changed.load(std::memory_order_relaxed) ||
           raw::call(SYS_geteuid) != static_cast<long>(region()->owner);
}

void born_by_clone() {
    // The first process of a pid namespace has a parent that it can't see.
    if (resident.region != nullptr && !raw::parent_pid().known()) resident.region = nullptr;
}

bool speaks_by_its_own_ids() {
    const std::int32_t pid = raw::pid().number();
    if (resident.pid.load(std::memory_order_relaxed) == pid) return true;
    const bool here = same_pid_namespace(*resident.region);
    if (here)
        resident.pid.store(pid, std::memory_order_relaxed);
    else
        resident.region = nullptr;
    return here;
}

// Whoever has another pid may be elsewhere, as the child of a raw clone; and after a restart the namespace is
// another. Two threads that ask at once find the same.
std::uint64_t own_ipc() {
    const std::uint64_t who = static_cast<std::uint64_t>(raw::pid().number()) << 32 |
                              region()->life.load(std::memory_order_relaxed);
    if (resident.ipc_asked.load(std::memory_order_acquire) == who)
        return resident.ipc_space.load(std::memory_order_relaxed);
    const std::uint64_t wanted = region()->ipc_namespace.load(std::memory_order_relaxed);
    const std::uint64_t inode = wanted == 0 ? 0 : own_namespace("/proc/self/ns/ipc");
    const std::uint64_t space = inode == 0 || inode == wanted ? 0 : undo_space(inode);
    resident.ipc_space.store(space, std::memory_order_relaxed);
    resident.ipc_asked.store(who, std::memory_order_release);
    return space;
}

void ipc_may_have_changed() {
    resident.ipc_asked.store(0, std::memory_order_relaxed);
}

void note_restriction() {
    cairn_door.restricts = 1;
    const std::int32_t index = resident.region == nullptr ? no_slot : own_slot();
    if (index != no_slot) resident.region->slots[index].flags.fetch_or(slot_restricts);
}

std::int32_t own_slot() {
    return find_slot(*resident.region, raw::pid());
}

std::int32_t own_slot_or_new() {
    const KernelId pid = raw::pid();
    const std::int32_t index = find_slot(*resident.region, pid);
    if (index != no_slot) return index;
    // The memory may be the parent's, who stays a member: this one alone is none.
    if (resident.pid.load(std::memory_order_relaxed) != pid.number() && !same_pid_namespace(*resident.region))
        return no_slot;
    const std::int32_t claimed = claim_slot(*resident.region, raw::parent_pid());
    if (claimed != no_slot) fill_slot(*resident.region, claimed, pid, true);
    return claimed;
}

void register_child(Birthplace place) {
    cairn_door.cpu = {};
    thread_cpu_base = 0;
    Region& region = *resident.region;
    std::int32_t index = place.slot;
    const KernelId pid = raw::pid();
    if (index != no_slot && !raw::parent_pid().known()) {
        // Born into a pid namespace of its own. Its pids mean nothing to the coordinator: the parent writes
        // the one that does, and neither this process nor those that it makes have anything to say. What it
        // calls others needs no translation, for a restart gives everybody in there the ids that he had.
        Slot& slot = region.slots[index];
        slot.foreign[0] = '\0';
        slot.flags.fetch_and(~static_cast<std::uint32_t>(slot_vfork | slot_spawn), std::memory_order_relaxed);
        raw::call(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        slot.born_ns.store(boottime_ns(), std::memory_order_relaxed);
        slot.region_at.store(reinterpret_cast<std::uint64_t>(&region), std::memory_order_relaxed);
        slot.door.store(reinterpret_cast<std::uint64_t>(&cairn_door), std::memory_order_relaxed);
        slot.state.store(SlotState::running, std::memory_order_release);
        announce_change(region);
        resident.region = nullptr;
        return;
    }
    if (of_earlier_life(region, place)) {
        name_main_thread(program_id(region.ids, pid), pid);
        return;
    }
    // The slot of an earlier process with our pid, if nobody has emptied it.
    const std::int32_t old = find_slot(region, pid);
    if (old != no_slot && old != index) release_slot(region, old);
    // The parent may have written our pid before us. And a signal handler that forks in the middle of a fork
    // leaves two children with one slot: the first takes it.
    // And the slot may have been given to somebody else, if our parent was long asleep in the middle of it.
    std::int32_t found = place.token;
    if (index == no_slot ||
        (!region.slots[index].pid.compare_exchange_strong(found, pid.number()) && found != pid.number()))
        index = claim_slot(region, raw::parent_pid());
    const ProgramId name =
        index != no_slot ? fill_slot(region, index, pid, true) : name_newcomer(region.ids, pid);
    name_main_thread(name, pid);
    announce_change(region);
}

ProgramId end_birth(Birthplace place, KernelId child) {
    Region& region = *resident.region;
    // No child; or what fork answered then is what the program goes by now.
    if ((!child.known() && place.slot == no_slot) || of_earlier_life(region, place))
        return program_id_of_same_number(child);
    if (place.slot == no_slot) return name_newcomer(region.ids, child);
    Slot& slot = region.slots[place.slot];
    std::int32_t token = place.token;
    if (!child.known()) {
        if (slot.pid.compare_exchange_strong(token, 0, std::memory_order_acq_rel))
            release_slot(region, place.slot);
        return program_id_of_same_number(child);
    }
    if (slot.pid.compare_exchange_strong(token, child.number(), std::memory_order_acq_rel))
        name_slot(region, place.slot, child);
    return name_process(region, place.slot, child);
}

void await_births(KernelId child) {
    if (resident.region == nullptr || !resident.yama) return;
    const int kept = errno;
    const Region& region = *resident.region;
    const auto is_born = [&](std::int32_t index) {
        return index == no_slot ||
               region.slots[index].state.load(std::memory_order_acquire) != SlotState::birth;
    };
    const auto are_born = [&] {
        if (child.known()) return is_born(find_slot(region, child));
        const std::uint32_t end = region.slots_end.load(std::memory_order_acquire);
        for (std::uint32_t index = 0; index < end && index < slot_count; ++index)
            if (!is_born(static_cast<std::int32_t>(index))) return false;
        return true;
    };
    constexpr std::uint64_t longest_ns = 100'000'000;  // a static program never registers
    const timespec moment{0, 50'000};
    for (const std::uint64_t begin = boottime_ns(); !are_born() && boottime_ns() - begin < longest_ns;)
        raw::call(SYS_nanosleep, &moment, nullptr);
    errno = kept;
}

ProgramId end_spawn(Birthplace place, KernelId child) {
    constexpr KernelId taken(-1);  // takes a birth out of the reach of other children
    Region& region = *resident.region;
    if (of_earlier_life(region, place)) return program_id_of_same_number(child);
    std::int32_t index = child.known() ? find_slot(region, child) : no_slot;
    if (index == no_slot && place.slot != no_slot)
        index = take_spawn_birth(region, raw::pid(), child.known() ? child : taken);
    if (child.known())
        return index == no_slot ? name_newcomer(region.ids, child) : name_process(region, index, child);
    if (index != no_slot) release_slot(region, index);
    return program_id_of_same_number(child);
}

}  // namespace cairn::hijack
