// What a process says of itself in its region, as far as the kernel confirms it.
#include <array>
#include <cstddef>
#include <cstring>

#include "capture/stop/stopping.h"
#include "common/agent.h"
#include "common/human.h"
#include "common/region_ops.h"

namespace cairn::capture {
Registration registration_of(const SessionRegions& regions, pid_t pid) {
    const SessionRegion* region = regions.of(pid);
    const auto index = region == nullptr ? no_slot : find_slot(*region->region, KernelId(pid));
    if (index == no_slot) return {};
    Slot& slot = region->region->slots[index];
    const auto state = slot.state.load(std::memory_order_acquire);
    if (state != SlotState::running && state != SlotState::exec) return {};
    return {region, &slot};
}

bool says_left_out(Stopping& group, pid_t pid, const Slot& slot) {
    std::array<char, sizeof slot.foreign> why{};
    std::memcpy(why.data(), slot.foreign, why.size() - 1);
    if (why.front() == 0) return false;
    group.processes[pid].stage = Stage::left_out;
    group.reporter.note(fmt::format("{} is left out: {}", proc::label(pid), printable(why.data())));
    return true;
}

namespace {

// Where nobody's list of children has led us to it, as the coordinator knew it as a member: who has become
// another user in a pid namespace of its own since has its place no more, and its parent's door still.
pid_t parent_leading_to(const Stopping& group, pid_t pid) {
    if (const pid_t parent = group.parent_of(pid); parent != 0) return parent;
    const auto stat = proc::stat(pid);
    return stat ? stat->ppid : 0;
}

}  // namespace

bool find_doors(const Stopping& group, StoppedProcess& process) {
    const SessionRegions& regions = group.regions;
    process.living = proc::living_thread(process.pid);
    auto known = registration_of(regions, process.pid);
    process.registered = static_cast<bool>(known);
    ProgramAddress door(known ? known.slot->door.load() : 0);
    // Given its slot by the coordinator, which knows nothing of doors.
    if (known && !door.known()) door = regions.door_in(process.living);
    for (pid_t ancestor = process.pid; !door.known();) {
        // a child of a raw clone has its parent's memory and so its parent's door: its own copy of it. One
        // that shares it is let go on, to its exec as a rule.
        const pid_t parent = parent_leading_to(group, ancestor);
        if (parent == 0 || share_memory(ancestor, parent)) return false;
        ancestor = parent;
        known = registration_of(regions, ancestor);
        door = ProgramAddress(known ? known.slot->door.load() : 0);
    }
    const ProgramAddress region_at(known.slot->region_at.load());
    if (!region_at.known() || !door.known()) return false;
    const auto magic =
        ptrace::read_object<std::uint64_t>(process.living, region_at + offsetof(Region, magic));
    process.unreadable = !magic && magic.error().number == EPERM;
    if (!magic || *magic != region_magic) return false;
    using Name = decltype(Region::session);
    const auto name = ptrace::read_object<std::array<char, sizeof(Name)>>(
        process.living, region_at + offsetof(Region, session));
    if (!name || std::memcmp(name->data(), regions.owners().session, sizeof(Name)) != 0) return false;
    const auto opened = ptrace::read_object<std::uint64_t>(process.living, door + offsetof(Door, magic));
    if (!opened || *opened != door_magic) return false;
    struct {
        std::int64_t timing_tls;
        std::uint32_t memory_policies, cpu_level;
        std::int32_t rseq_tls;
    } of_threads;  // as they stand side by side in the door
    static_assert(offsetof(Door, rseq_tls) - offsetof(Door, timing_tls) ==
                  offsetof(decltype(of_threads), rseq_tls));
    const auto bytes = std::as_writable_bytes(std::span(&of_threads, 1));
    if (!ptrace::read_memory(process.living, door + offsetof(Door, timing_tls), bytes) ||
        !regions.confirms(*known.region, process.living, region_at, door))
        return false;
    process.region = known.region;
    process.region_at = region_at;
    process.door = door;
    process.timing_tls = of_threads.timing_tls;
    process.rseq_tls = of_threads.rseq_tls;
    process.born_ns = regions.born_ns(*known.region, process.pid).value_or(known.slot->born_ns.load());
    return true;
}
}  // namespace cairn::capture
