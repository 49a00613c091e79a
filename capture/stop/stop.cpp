// The loop that goes on until every process of the group stands still and nobody new turns up.
#include "capture/stop/stop.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "capture/stop/stopping.h"

namespace cairn::capture {
namespace {

// True: it stays a candidate.
Result<bool> look_at_candidate(Stopping& group, pid_t pid, Tracked& tracked) {
    const auto stat = proc::stat(pid);
    if (!stat || all_dead(*stat, pid)) {
        // If it is a zombie, its parent's list of children tells, and so it does of its own children, who may
        // have gone to anybody.
        for (auto& [other, known] : group.processes)
            if (known.stage == Stage::looked_at) known.stage = Stage::seized;
        tracked.stage = Stage::gone;
        return false;
    }
    const auto known = registration_of(group.regions, pid);
    if (known && says_left_out(group, pid, *known.slot)) return false;
    // A tool of ours that a program of the group uses, and what it has started outside. And a copy-on-write
    // child whose parent was killed before it could be told of: it was found when it had no name yet.
    const bool stays_outside =
        !known && (is_snapshot(*stat, pid) || is_own_program(pid) || is_marked_outside(pid));
    if (stays_outside || group.outsiders.left_out(pid)) {
        tracked.stage = Stage::left_out;
        return false;
    }
    StoppedProcess probe;
    probe.pid = pid;
    if (!find_doors(group, probe) &&
        !wants_visit(group, pid)) {  // between exec and the library's constructor: let it get there
        if (probe.unreadable) CHECK_OK(refuse_tracing(group, pid, pid, Error{std::strerror(EPERM), EPERM}));
        const bool leave = TRY(group.outsiders.leave_out(pid));
        if (leave) tracked.stage = Stage::left_out;
        return !leave;
    }
    tracked.stage = Stage::seized;
    tracked.process = {};
    tracked.process.pid = pid;
    CHECK_OK(seize_new_threads(group, pid));
    return false;
}

// False: it is to be looked at again.
Result<bool> look_at_held(Stopping& group, pid_t pid, Tracked& tracked, bool everybody_stands) {
    if (!all_still(group, pid)) {
        if (group.threads.of(pid).empty()) release(group, pid);  // every thread has ended
        return false;
    }
    if (tracked.stage == Stage::looked_at) return true;
    const bool complete = TRY(seize_new_threads(group, pid));
    if (!complete) return false;
    if (!find_doors(group, tracked.process)) {
        const bool visited = TRY(visit(group, tracked.process));
        if (!visited) release(group, pid);  // it has execed while we stopped it
    } else if (look_for_children(group, tracked.process)) {
        tracked.stage = Stage::looked_at;
        if (everybody_stands) tracked.listed_at = group.motions();
    }
    return false;
}

// Two processes with one memory have one door between them.
Result<> check_shared_memory(const Stopping& group) {
    for (const auto& [pid, tracked] : group.processes)
        if (const pid_t parent = tracked.process.stat.ppid;
            tracked.is_held() && group.is_held(parent) && share_memory(pid, parent))
            return fail_code(ExitCode::refused,
                             "{} shares its memory with {} (clone with CLONE_VM), which can't be saved",
                             proc::label(pid), proc::label(parent));
    return {};
}

// One look at everybody. True: all stand still, and nothing has changed.
Result<bool> look_at_all(Stopping& group) {
    bool unchanged = true;
    for (auto& [pid, tracked] : group.processes) {
        if (tracked.stage != Stage::candidate) continue;
        const bool stays = TRY(look_at_candidate(group, pid, tracked));
        if (stays || tracked.stage != Stage::left_out) unchanged = false;
    }
    const bool everybody_stands = group.all_stand();
    for (auto& [pid, tracked] : group.processes) {
        if (!tracked.is_held()) continue;
        const bool done = TRY(look_at_held(group, pid, tracked, everybody_stands));
        if (!done) unchanged = false;
    }
    return unchanged && !group.has_candidates();
}

}  // namespace

StoppedGroup Stopping::hand_on() && {
    std::map<pid_t, StoppedProcess> held;
    std::vector<Zombie> zombies;
    for (auto& [pid, tracked] : processes) {
        if (tracked.is_held()) held.emplace(pid, std::move(tracked.process));
        if (tracked.stage != Stage::ended) continue;
        // A parent that was killed while it stood still has left its zombies to others.
        if (const auto stat = proc::stat(pid); stat && stat->start_time == tracked.stat.start_time)
            zombies.push_back({pid, *stat, 0});
    }
    processes.clear();
    return {std::move(held), std::move(zombies), std::move(threads), std::move(tracers)};
}

bool Stopping::has_candidates() const {
    return std::ranges::any_of(processes,
                               [](const auto& each) { return each.second.stage == Stage::candidate; });
}

bool Stopping::all_looked_at() const {
    return all_stand() && std::ranges::none_of(
                              processes, [](const auto& each) { return each.second.stage == Stage::seized; });
}

bool Stopping::all_stand() const {
    return !has_candidates() && std::ranges::all_of(threads.all(), &SeizedThread::still);
}

bool all_dead(const proc::Stat& stat, pid_t pid) {
    return dead(stat.state) && proc::tasks(pid).value_or(std::vector<pid_t>{}).size() <= 1;
}

Result<StoppedGroup> stop_group(const std::vector<pid_t>& members, const SessionRegions& regions,
                                Reporter& reporter, Outsiders& outsiders, std::uint64_t capture) {
    Stopping group(regions, reporter, outsiders, capture);
    for (const pid_t pid : members) group.add_candidate(pid);
    auto last_report = Clock::now();
    for (;;) {
        drain_events(group);
        const bool unchanged = TRY(look_at_all(group));
        if (unchanged && !look_for_births(group) && no_more_children(group) && nobody_has_come(group)) {
            const bool complete = TRY(read_all_registers(group));
            if (complete) break;
            continue;
        }
        CHECK_OK(reporter.may_go_on([&] { return waiting_for(group); }));
        if (Clock::now() - last_report > std::chrono::milliseconds(200)) {
            last_report = Clock::now();
            reporter.phase("stop", {waiting_for(group)});
        }
        if (!unchanged || group.has_candidates()) {
            CHECK_OK(refuse_waiting_for_tracer(group));
            if (group.all_looked_at()) continue;  // nobody has anything to tell: it is only to be confirmed
            await_event();
            look_after_silent(group);
        }
    }
    CHECK_OK(check_shared_memory(group));
    CHECK_OK(refuse_untold_ends(group));
    return std::move(group).hand_on();
}
}  // namespace cairn::capture
