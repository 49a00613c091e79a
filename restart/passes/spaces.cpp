#include "restart/passes/spaces.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/choose_ids.h"
#include "common/privileges.h"
#include "common/region_ops.h"
#include "restart/clock.h"
#include "restart/moved_hosts.h"
#include "restart/old_ids.h"

namespace cairn::restart::pass {
namespace {

// In a user namespace of its own a process has no right to choose ids for its threads, which can be made only
// when it is in there: clone3(2), set_tid.
const schema::Process* whose_threads_get_others(const Computation& computation) {
    for (const std::size_t i : computation.living) {
        const auto& process = computation.processes[i];
        if (process.namespaces && !process.own_pids && process.threads.size() > 1) return &process;
    }
    return nullptr;
}

Result<> choose_ids(Ids wanted, const Computation& computation, const Plan& plan, Spaces& spaces) {
    std::vector<ProgramId> leaders;  // of sessions and groups, who have exited: their ids are taken as well
    for (const auto& process : plan.steps.processes)
        if (process.exact) leaders.push_back(process.id);
    const schema::Process* const other_threads = whose_threads_get_others(computation);
    if (wanted == Ids::exact && other_threads != nullptr)
        return fail_code(
            ExitCode::refused,
            "process {} ({}) has threads, and namespaces of its own, where nobody may choose the ids of "
            "threads: --ids exact can't be had for it, --ids virtual can",
            other_threads->pid, other_threads->name);
    if (wanted == Ids::exact)  // the forest says by name who is in the way
        (void)old_ids_free(computation.processes, leaders, std::chrono::seconds(10));
    spaces.exact_ids =
        wanted == Ids::exact ||
        (wanted == Ids::automatic && ::geteuid() == 0 && can_choose_ids() && other_threads == nullptr &&
         old_ids_free(computation.processes, leaders, std::chrono::seconds(3)));
    if (spaces.exact_ids) {
        spaces.avoid = ids_of(computation.processes, leaders);
        spaces.to_kernel = kernel_id_of_same_number;
    }
    // Who is in a pid namespace of a user namespace can't be given the one that it had outside.
    const auto in_own = [](const schema::Process& process) { return process.own_pids.has_value(); };
    if (!spaces.exact_ids || std::ranges::any_of(computation.processes, in_own)) {
        spaces.to_kernel = [region = &spaces.regions.owners()](ProgramId id) {
            return kernel_id(region->ids, id);
        };
    }
    return {};
}

Result<> choose_clocks(Clocks wanted, const schema::Manifest& manifest, Spaces& spaces) {
    (void)own_privileges();  // a user namespace would change what we see of ourselves
    spaces.own_clocks =
        proc::clock_offsets("self");  // once there is a namespace for children, the kernel shows that one
    spaces.clock_shift = TRY(continue_clocks(manifest, wanted));
    const auto given = proc::namespace_of("self", "time_for_children");
    if (given != proc::namespace_of("self", "time")) give_time(spaces.regions.owners(), given);
    return {};
}

Result<> choose_terminal(const Computation& computation, const Plan& plan, int floor, Spaces& spaces) {
    const auto objects = index_objects(computation.objects.objects);
    const schema::Object* image = nullptr;
    bool leader_is_ours = false;
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        const auto object = objects.find(process.terminal);
        if (object == objects.end() || !object->second->is<schema::Terminal>()) continue;
        image = object->second;
        const auto node = std::ranges::find(plan.nodes, process.pid, &forest::Node::pid);
        if (node != plan.nodes.end() && !node->session_outside) leader_is_ours = true;
    }
    spaces.terminal = TRY(OuterTerminal::choose(image, leader_is_ours));
    if (spaces.terminal.fd() >= 0) spaces.terminal_fd = Fd(::fcntl(spaces.terminal.fd(), F_DUPFD, floor));
    return {};
}

}  // namespace

Result<Spaces> spaces(const Options& options, const Computation& computation, const Plan& plan,
                      const Meeting& meeting, int floor) {
    Spaces spaces;
    CHECK_OK(spaces.regions.open(meeting.session(), computation.processes, floor));
    CHECK_OK(choose_ids(options.ids, computation, plan, spaces));
    spaces.hosts = addresses_now(meeting.places());
    note_moved_hosts(computation.manifest, meeting.places(), spaces.regions.owners().sockets);
    CHECK_OK(choose_clocks(options.clocks, computation.manifest, spaces));
    CHECK_OK(choose_terminal(computation, plan, floor, spaces));
    return spaces;
}

}  // namespace cairn::restart::pass
