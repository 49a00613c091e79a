#include "restart/passes/barrier.h"

#include <sys/stat.h>

#include <string>

#include "common/proc.h"
#include "common/region.h"
#include "common/region_ops.h"
#include "resources/lock/restore.h"
#include "restart/pmi/launchers.h"

namespace cairn::restart::pass {
namespace {

// As the library in the process will name its IPC namespace, if that is one of the group's own.
Result<std::uint64_t> undo_space_of(const schema::Process& process, const SystemV& system_v,
                                    const ObjectSet& set) {
    const auto own = process.undo.empty() ? std::nullopt : system_v.own_space_of(process);
    if (!own) return 0;
    const Lent space = TRY(set.lend(*own));
    struct stat status {};
    if (::fstat(space.get(), &status) != 0) return fail_errno("an IPC namespace");
    return undo_space(status.st_ino);
}

// What the library of each process finds in the session's regions.
Result<> fill_regions(const Computation& computation, const Spaces& spaces, const SystemV& system_v,
                      const ObjectSet& set, const Rebuilt& rebuilt) {
    for (const auto& one : rebuilt.processes)
        for (const auto& [image_tid, real_tid] : one.thread_ids)
            if (!spaces.exact_ids || !same_number(image_tid, real_tid))
                CHECK_OK(rebuilt.forest.bound_ids->bind(image_tid, real_tid));
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        const auto space = TRY(undo_space_of(process, system_v, set));
        for (const auto& undo : process.undo)
            promise_undo(spaces.regions.of(process).region->ipc, rebuilt.forest.kernel_id(process.pid),
                         undo_key(undo.semaphores, static_cast<std::uint32_t>(undo.number)) | space,
                         undo.adjust);
    }
    spaces.regions.owners().life.store(life_of(static_cast<std::uint64_t>(computation.manifest.generation)),
                                       std::memory_order_release);
    spaces.regions.share_names();
    return {};
}

Result<> claim_slots(const Computation& computation, const Regions& regions, Slots& slots) {
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        Region& region = *regions.of(process).region;
        if (!slots.claim(region, process.pid, process.door))
            return fail_code(ExitCode::refused,
                             "the session's table of processes is full: {} are to be restored, and of its {} "
                             "places too few are left; restart them in another --session",
                             computation.living.size(), slots_of(region));
    }
    return {};
}

wire::RestartReady describe_members(const Computation& computation, const Regions& regions,
                                    const Ready& ready) {
    wire::RestartReady told;
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        const SessionRegion& region = regions.of(process);
        auto& member = told.members.emplace_back();
        member.uid = process.uid;
        member.pid = process.pid;
        member.real = ready.rebuilt.forest.kernel_id(process.pid);
        member.slot = static_cast<std::uint32_t>(ready.slots->of(process.pid));
        if (!region.owners) member.user = region.user;
        member.region_at = process.region_at;
        member.door = process.door;
    }
    return told;
}

}  // namespace

Result<Ready> barrier(const Computation& computation, const Spaces& spaces, Objects& objects,
                      Meeting& meeting, Rebuilt rebuilt, Notes& notes) {
    Ready ready{Undone<Slots, &Slots::release>(Slots()), std::move(rebuilt)};
    auto ahead = proc::clock_offsets("self");  // of the namespace that the programs were given
    ahead = {ahead.monotonic - spaces.own_clocks.monotonic, ahead.boottime - spaces.own_clocks.boottime};
    CHECK_OK(break_leases(objects.set, computation.processes, notes.list));
    CHECK_OK(objects.set.after_forest(spaces.to_kernel, ahead, notes.list));
    CHECK_OK(fill_regions(computation, spaces, *objects.system_v, objects.set, ready.rebuilt));
    CHECK_OK(objects.system_v->attached(in_spaces_of(objects.set)));
    CHECK_OK(claim_slots(computation, spaces.regions, *ready.slots));
    ready.launcher = TRY(pmi::stand_in_for_launchers(computation.objects.objects, computation.processes,
                                                     objects.set, spaces.to_kernel, notes.list));
    notes.print();
    CHECK_OK(meeting.await_release(describe_members(computation, spaces.regions, ready)));
    return ready;
}

}  // namespace cairn::restart::pass
