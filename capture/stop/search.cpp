// Looks for processes that belong to the group and that nobody has told us of: children, births, orphans.
#include <algorithm>
#include <span>

#include "capture/stop/stopping.h"
#include "common/agent.h"
#include "common/region_mapping.h"

namespace cairn::capture {
namespace {

// A copy-on-write child of an earlier checkpoint, not the program's (hijack/agent/agent.cpp).
bool old_snapshot(const proc::Stat& stat) {
    return stat.exit_signal == 0 && stat.comm == snapshot_name;
}

// Of a zombie that is the last thread of its process. False: it is known already.
bool note_zombie(Stopping& group, StoppedProcess& parent, pid_t child, const proc::Stat& stat) {
    if (old_snapshot(stat)) {
        if (std::ranges::find(parent.old_snapshots, child) != parent.old_snapshots.end()) return false;
        parent.old_snapshots.push_back(child);
        return true;
    }
    auto& tracked = group.processes[child];
    tracked.stage = Stage::ended;
    tracked.stat = stat;
    return true;
}

// Whoever ended after a process's list of children was read has left its own children to that process, or to
// an ancestor of it, behind our back: they are to be looked at again.
void look_again(Stopping& group, pid_t pid) {
    group.note_motion();
    for (auto above = group.processes.find(pid); above != group.processes.end() && above->second.is_held();) {
        above->second.stage = Stage::seized;
        const auto stat = proc::stat(above->first);
        if (!stat) break;
        above = group.processes.find(stat->ppid);
    }
}

// Whether the kernel says as well that a process of another user's belongs to the session.
bool is_claimed_rightly(const SessionRegions& regions, const SessionRegion& region, pid_t pid) {
    if (regions.of(pid) != &region) return false;
    const MappedAt at = find_mapping(pid, region.key);
    return at.mapped == Mapped::yes && at.library;
}

// Somebody whom a slot names and nobody has told us of.
bool is_newcomer(Stopping& group, const SessionRegion& region, const Slot& slot, pid_t pid) {
    if (pid <= 0 || group.is_known(pid)) return false;
    if (!region.owners && !is_claimed_rightly(group.regions, region, pid)) return false;
    if (says_left_out(group, pid, slot)) return false;
    const auto stat = proc::stat(pid);
    return stat && !all_dead(*stat, pid);
}

// A parent that has gone has announced a birth. Either its child is about to register, or there is none: the
// parent was killed between the two. The child has our region mapped, and is in no slot.
bool orphan_on_its_way(Stopping& group) {
    if (!group.orphans_since) group.orphans_since = Clock::now();
    if (Clock::now() - *group.orphans_since < std::chrono::milliseconds(20)) return true;
    for (const pid_t pid : proc::processes()) {
        if (group.is_held(pid) || group.stage_of(pid) == Stage::left_out ||
            registration_of(group.regions, pid))
            continue;
        const SessionRegion* region = group.regions.of(pid);
        const MappedAt at = region == nullptr ? MappedAt{} : find_mapping(pid, region->key);
        const auto stat = proc::stat(pid);
        if (at.mapped == Mapped::yes && at.library && stat && !dead(stat->state) &&
            stat->comm != snapshot_name)
            return true;
    }
    return false;
}

}  // namespace

bool look_for_children(Stopping& group, StoppedProcess& process) {
    // All that live stand still, so no other has children.
    std::vector<pid_t> threads;
    for (const auto& thread : group.threads.of(process.pid)) threads.push_back(thread.tid);
    if (threads.empty()) return true;
    bool ended = false;
    for (const pid_t child : proc::children(process.pid, threads)) {
        const auto stage = group.stage_of(child);
        if (stage == Stage::candidate && group.parent_of(child) == 0)
            group.processes[child].parent = process.pid;
        if (stage != Stage::gone) continue;
        auto stat = proc::stat(child);
        if (!stat) continue;
        if (all_dead(*stat, child)) {
            ended = note_zombie(group, process, child, *stat) || ended;
            continue;
        }
        if (old_snapshot(*stat)) continue;  // sees that its checkpoint is over, and goes
        group.processes[child].parent = process.pid;
        group.add_candidate(child);
    }
    if (ended) look_again(group, process.pid);
    return !ended;
}

// Births that were announced and whose parent has gone: the child has no parent that would lead to it.
bool look_for_births(Stopping& group) {
    bool pending = false, orphans = false;
    for (const SessionRegion& each : group.regions.all()) {
        Region& region = *each.region;
        for (const Slot& slot :
             std::span(region.slots).first(std::min(region.slots_end.load(), slot_count))) {
            const auto state = slot.state.load(std::memory_order_acquire);
            const pid_t pid = slot.pid.load();
            if (state == SlotState::running || state == SlotState::exec) {
                if (!is_newcomer(group, each, slot, pid)) continue;
                group.add_candidate(pid);
                pending = true;
            } else if (state == SlotState::birth) {
                const pid_t parent = slot.parent_pid.load();
                // A parent that stands still has not forked yet, or its child is in its list of children.
                if (parent != 0 && !group.is_held(parent) && !proc::stat(parent)) orphans = true;
            }
        }
    }
    return pending || (orphans && orphan_on_its_way(group));
}

// With everybody standing still, every list of children is read once more: a list that is read while some of
// it end or come to it from others may miss some (proc_pid_task(5), children). Not those that were read when
// everybody stood still already, and nobody has moved since: reading them takes a third of the stop of a
// process of a thousand threads.
bool no_more_children(Stopping& group) {
    bool complete = true;
    const auto motions = group.motions();
    for (auto& [pid, tracked] : group.processes)
        if (tracked.is_held() && tracked.listed_at != motions)
            complete = look_for_children(group, tracked.process) && complete;
    return complete && !group.has_candidates();
}

// Orphans who were never registered: neither a slot nor a parent leads to them.
bool nobody_has_come(Stopping& group) {
    for (const pid_t pid : group.outsiders.come_since())
        if (!group.is_held(pid) && group.stage_of(pid) != Stage::left_out) group.add_candidate(pid);
    return !group.has_candidates();
}
}  // namespace cairn::capture
