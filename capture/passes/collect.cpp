// The pass that asks every process what only it can tell: an agent is placed into each for the moment, the
// rest is read from /proc and by ptrace.
#include <algorithm>
#include <cstring>

#include "capture/collect/inner_ids.h"
#include "capture/collect/keyrings.h"
#include "capture/collect/landlock.h"
#include "capture/go_program.h"
#include "capture/hide_stop.h"
#include "capture/killed.h"
#include "capture/passes/passes.h"
#include "capture/translation.h"
#include "common/linker_room.h"
#include "common/uid.h"

namespace cairn::capture {

// A coordinator that has given up, or its root, has hung up by now: what was done to the programs is undone
// whether it waits for that or not. Whoever can't be brought back sees another number, and puts itself back
// once it is detached.
Members::~Members() {
    const auto undoing = setting_->reporter.undo();
    bool all_out = true;
    for (auto& member : all)
        if (member.own_agent && !member.own_agent->leave(setting_->reporter) && !is_killed(*member.process))
            all_out = false;
    for (auto& member : all)
        if (member.agent != nullptr && !member.own_agent &&
            !member.agent->leave_siblings(setting_->reporter) && !is_killed(*member.process))
            all_out = false;
    if (!all_out) setting_->regions.set_capture(0);
}

Result<> Members::leave() {
    for (auto& member : all)
        if (member.own_agent) CHECK_OK(member.own_agent->begin_to_leave());
    for (auto& member : all)
        CHECK_OK(member.own_agent ? member.own_agent->leave(setting_->reporter)
                                  : member.agent->leave_siblings(setting_->reporter));
    return {};
}

namespace {

Result<> start_agent(Member& member) {
    auto timers = TRY(list_timers(member.process->living));
    std::vector<std::int32_t> ids;
    for (const auto& timer : timers) ids.push_back(timer.image.id);
    CHECK_OK(member.own_agent ? member.own_agent->start() : member.agent->go_on());
    CHECK_OK(member.agent->write_timer_ids(ids));
    member.timers_asked = Clock::now();
    return member.agent->collect();
}

// The siblings of the thread that has entered follow it, into memory that the agent maps for them.
Result<> start_siblings(Member& member, const Reporter& reporter) {
    auto& agent = *member.agent;
    const auto size = agent.scratch_size();
    if (size == 0) return {};
    CHECK_OK(agent.ask(agent_map, size));
    const auto address = TRY(agent.wait(reporter));
    if (address < 0)
        return fail("{}: no memory for the agent: {}", proc::label(member.process->pid),
                    std::strerror(static_cast<int>(-address)));
    const ProgramAddress at(static_cast<std::uint64_t>(address));
    member.scratch = {at, at + size};
    CHECK_OK(agent.start_siblings(at));
    return agent.wait_siblings(reporter);
}

// What a process calls a child of its.
pid_t called_by(const StoppedProcess& process, pid_t child) {
    if (!process.inner) return child;
    const auto inner = proc::inner_ids(child, child);
    return inner && inner->depth() >= process.inner->depth() ? inner->pid_at(process.inner->depth()) : child;
}

Result<> wait_agent(const Setting& setting, Member& member, LandlockJudge& landlock) {
    auto& agent = *member.agent;
    CHECK_OK(agent.wait(setting.reporter));
    for (const pid_t pid : member.process->old_snapshots) {
        CHECK_OK(agent.ask(agent_reap, static_cast<std::uint64_t>(called_by(*member.process, pid))));
        CHECK_OK(agent.wait(setting.reporter));
    }
    CHECK_OK(start_siblings(member, setting.reporter));
    const auto process = TRY(agent.process_answers());
    const auto threads = TRY(agent.thread_answers());
    auto& image = member.image;
    member.cpu_level = TRY(ptrace::read_object<CpuLevel>(member.process->living,
                                                         member.process->door + offsetof(Door, cpu_level)));
    member.linker_room = TRY(ptrace::read_object<std::uint32_t>(
        member.process->living, member.process->door + offsetof(Door, linker_room)));
    const auto placed = TRY(ptrace::read_object<std::uint32_t>(
        member.process->living, member.process->door + offsetof(Door, placed)));
    // The linker there runs on a CPU of the simulator's making.
    if (member.process->simulates) member.linker_room = room_for_everything;
    // In a pid namespace of the group's own all ids come back as they were.
    member.raw_ids = !member.process->inner &&
                     (placed != 0 || member.process->simulates || is_go_program(member.process->living));
    CHECK_OK(collect_identity(*member.process, process, setting.to_program, image));
    CHECK_OK(add_inner_ids(member.process->pid, member.process->inner, image));
    add_thread_answers(threads, image);
    CHECK_OK(collect_signals(*member.process, process, setting.to_program, image));
    CHECK_OK(landlock.judge(*member.process, threads, image));
    note_keyrings(*member.process, process, threads,
                  [&](std::string note) { setting.reporter.note(std::move(note)); });
    return agent.call_siblings();
}

// What wait(2) would tell `parent` of a child, as the agent in the parent sees it; 0: nothing, or the parent
// is none of ours.
Result<std::int32_t> to_be_told(const Setting& setting, Members& members, pid_t parent, pid_t child) {
    const auto found = std::ranges::find_if(
        members.all, [&](const Member& member) { return member.process->pid == parent; });
    if (found == members.all.end()) return 0;
    CHECK_OK(found->agent->ask(agent_peek, static_cast<std::uint64_t>(called_by(*found->process, child))));
    return static_cast<std::int32_t>(std::max<std::int64_t>(TRY(found->agent->wait(setting.reporter)), 0));
}

Result<schema::Process> collect_dead(const Setting& setting, Zombie zombie, Members& members) {
    if (zombie.stat.exit_code == 0)  // so it ended, or /proc hides how it did
        zombie.stat.exit_code = TRY(to_be_told(setting, members, zombie.stat.ppid, zombie.pid));
    return collect_zombie(zombie, setting.to_program);
}

// Before Linux 5.17 /proc shows of no stopped child that its parent is still to be told.
Result<> ask_for_stops(const Setting& setting, Members& members) {
    for (auto& member : members.all)
        if (member.image.stop_reported)
            member.image.stop_reported =
                TRY(to_be_told(setting, members, member.process->stat.ppid, member.process->pid)) == 0;
    return {};
}

// What is found in them is numbered in this order: what programs call each other is the same at the next
// checkpoint, and what the kernel calls them may not be.
std::vector<StoppedProcess*> in_order_of_programs(Group& group, const ToProgram& to_program) {
    std::vector<StoppedProcess*> all;
    for (auto& [pid, process] : group.stopped.processes()) all.push_back(&process);
    std::ranges::sort(all, {}, [&](const StoppedProcess* each) { return to_program(KernelId(each->pid)); });
    return all;
}

}  // namespace

Result<Members> pass::collect(const Setting& setting, const Ahead& ahead, Group& group) {
    setting.reporter.phase("collect");
    Members members(setting);
    members.files = std::make_unique<ThreadFiles>(group.stopped.processes());
    CHECK_OK(refuse_sharing(group.stopped.processes()));
    CHECK_OK(find_inner_ids(group.stopped));
    std::uint32_t index = 0;
    for (auto* const each : in_order_of_programs(group, setting.to_program)) {
        auto& process = *each;
        auto* const tracer = group.stopped.tracers().find(process.pid);
        if (tracer != nullptr) {
            CHECK_OK(tracer->agent->hold(setting.reporter));
        } else {
            leave_translations(process);
            hide_stop(process, AgentFollows::yes);
        }
        // What only their tracer can do comes before what the helpers have begun with.
        CHECK_OK(read_states(process));
        CHECK_OK(members.files->ask(process));
        CHECK_OK(refuse_unsupported(process));
        auto& member = members.all.emplace_back();
        member.process = &process;
        member.holder = {process.pid, -1, process.first_living().tid};
        auto& ipc = process.region->region->ipc;
        CHECK_OK(collect_threads(process, setting.to_program, ipc, member.image));
        const bool filtered =
            !member.image.filters.empty() || member.image.io_uring_off || process.has_suspended_filters();
        add_tracing(process, group.stopped.tracers(), setting.to_program, member.image);
        if (tracer == nullptr) member.own_agent.emplace(process, index++, setting.request.capture, !filtered);
        member.agent = tracer == nullptr ? &*member.own_agent : &*tracer->agent;
        if (auto done = start_agent(member); !done)
            return std::unexpected(std::move(done.error()).in(proc::label(process.pid)));
    }
    LandlockJudge landlock(setting.request.landlock,
                           [&](std::string note) { setting.reporter.note(std::move(note)); });
    std::set<pid_t> ours;
    for (const auto& [pid, process] : group.stopped.processes()) ours.insert(pid);
    for (const auto& zombie : group.stopped.zombies()) ours.insert(zombie.pid);
    for (auto& member : members.all) {
        CHECK_OK(wait_agent(setting, member, landlock));
        auto& image = member.image;
        image.uid = make_uid(ahead.manifest.host, image.pid, member.process->born_ns);
        image.cid = setting.request.cid;
        image.np = group.np;
        note_outer_leaders(member.process->stat, ours, image);
    }
    landlock.note_unknown();
    CHECK_OK(ask_for_stops(setting, members));
    for (auto& member : members.all)
        CHECK_OK(add_inner_ids_of_children(*member.process, group.stopped, setting.to_program, member.image));
    for (const auto& zombie : group.stopped.zombies()) {
        auto image = TRY(collect_dead(setting, zombie, members));
        CHECK_OK(add_inner_ids(zombie.stat.ppid, zombie.inner, image));
        note_outer_leaders(zombie.stat, ours, image);
        image.uid = make_uid(ahead.manifest.host, image.pid, 0);
        members.zombies.push_back(std::move(image));
    }
    return members;
}

}  // namespace cairn::capture
