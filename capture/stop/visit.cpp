// Members that don't load libcairn.so: once they stand still they are given it, and a slot.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "capture/place_library.h"
#include "capture/stop/stopping.h"
#include "common/agent.h"
#include "common/region_mapping.h"
#include "common/region_ops.h"

namespace cairn::capture {
namespace {

// A child that was forked behind an earlier checkpoint has its parent's memory, and with it what was placed
// there.
std::optional<Placed> placed_before(const SessionRegions& regions, const SessionRegion& region,
                                    pid_t living) {
    const MappedAt at = find_mapping(living, region.key);
    const auto door = regions.door_in(living);
    if (at.mapped != Mapped::yes || !door.known()) return std::nullopt;
    const auto magic = ptrace::read_object<std::uint64_t>(living, door + offsetof(Door, magic));
    if (!magic || *magic != door_magic) return std::nullopt;
    return Placed{at.at.start, door};
}

// Whether whoever launched or spawned it has announced it.
bool has_slot(const SessionRegion& region, pid_t pid) {
    return find_slot(*region.region, KernelId(pid)) != no_slot;
}

// Its own if it has one: of the launcher, of a parent that announced its birth, of its own exec.
bool give_slot(const SessionRegion& region, const proc::Stat& stat, pid_t pid, const Placed& placed) {
    Region& table = *region.region;
    const KernelId kernel(pid);
    auto index = find_slot(table, kernel);
    if (index == no_slot) {
        index = claim_slot(table, KernelId(stat.ppid));
        if (index == no_slot) return false;
        name_slot(table, index, kernel);
    }
    Slot& slot = table.slots[index];
    timespec now = {};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    std::uint64_t unborn = 0;
    slot.born_ns.compare_exchange_strong(unborn, static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                                                     static_cast<std::uint64_t>(now.tv_nsec));
    set_program_pid(slot, kernel, program_id(table.ids, kernel));
    slot.region_at.store(placed.region_at.value());
    slot.door.store(placed.door.value());
    slot.flags.fetch_and(~static_cast<std::uint32_t>(slot_vfork | slot_spawn));
    slot.state.store(SlotState::running, std::memory_order_release);
    table.changes.fetch_add(1);
    ::syscall(SYS_futex, &table.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    return true;
}

}  // namespace

// The library is for whoever doesn't load it by itself. Who has its parent's memory still (vfork) goes on, to
// its exec as a rule.
bool wants_visit(const Stopping& group, pid_t pid) {
    if (expects_library(pid) != LibraryExpected::no || is_own_program(pid)) return false;
    const auto stat = proc::stat(pid);
    const SessionRegion* region = group.regions.of(pid);
    if (!stat || region == nullptr || share_memory(pid, stat->ppid)) return false;
    return !group.outsiders.leaves_out_strangers() || has_only_forked(*stat) || has_slot(*region, pid);
}

Result<bool> visit(Stopping& group, StoppedProcess& process) {
    const pid_t pid = process.pid;
    if (!wants_visit(group, pid)) return false;
    const SessionRegion& region = *group.regions.of(pid);
    const pid_t living = proc::living_thread(pid);
    auto placed = placed_before(group.regions, region, living);
    if (!placed) {
        // Root's is for nobody else to write into, and who is another user since the coordinator has looked
        // (Registry::provide_for_kin) has none.
        if (!group.regions.has_user_of(pid))
            return fail_code(
                ExitCode::refused,
                "{} has become another user in this moment: another checkpoint has a place for it",
                proc::label(pid));
        const auto library = TRY(group.regions.library());
        auto fresh = place_library(living, library, region);
        const auto stat = proc::stat(pid);
        if (!fresh && (!stat || all_dead(*stat, pid))) return false;
        if (!fresh) return std::unexpected(std::move(fresh.error()).in(proc::label(pid)));
        placed = *fresh;
    }
    const auto stat = TRY(proc::stat(pid));
    if (!give_slot(region, stat, pid, *placed))
        return fail_code(ExitCode::refused, "{}: {}", proc::label(pid), no_place);
    return true;
}

}  // namespace cairn::capture
