#include "restart/passes/forest.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "restart/become.h"
#include "restart/heap.h"
#include "restart/own_pids.h"
#include "restart/own_users.h"

namespace cairn::restart::pass {
namespace {

// In a zombie to be: what /proc shows of it afterwards.
void dress(const Computation& computation, const forest::Node& node) {
    ::signal(SIGPIPE, SIG_DFL);  // the tool ignores it
    for (const auto& process : computation.processes)
        if (process.pid == node.pid) ::prctl(PR_SET_NAME, process.name.c_str());
}

// In a process that has just become a session's leader.
void take_terminal(const Computation& computation, const ObjectSet& objects, ProgramId session) {
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        if (process.sid != session || process.terminal < 0) continue;
        const Lent terminal = objects.controlling_terminal(process);
        if (terminal && take_as_controlling(terminal.get(), process)) return;
    }
}

// With exact ids only who is in a pid namespace of its own may have got another one outside.
Result<> bind_ids(const forest::Forest& made, bool exact_ids, BoundIds& bound) {
    for (const auto& [old_id, new_id] : made.made)
        if (!exact_ids || !same_number(old_id, new_id)) CHECK_OK(bound.bind(old_id, new_id));
    return {};
}

}  // namespace

Result<Forest> forest(const Computation& computation, const Plan& plan, const Spaces& spaces,
                      const Objects& objects, Notes& notes) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    auto stage = TRY(Stage::create(computation.processes.size()));
    const auto index = index_objects(computation.objects.objects);
    const Arrival arrival{computation,
                          plan.nodes,
                          index,
                          objects.set,
                          objects.image_place.get(),
                          spaces.regions,
                          spaces.to_kernel,
                          spaces.terminal.foreground()};
    const pid_t tool = ::getpid();
    if (huge_pages_pay(computation.living.size())) join_heap_pages();
    forest::Execution how;
    how.exact_ids = spaces.exact_ids;
    if (spaces.exact_ids)
        for (const auto& [heir, parent] : plan.heirs) how.reserved.push_back(kernel_id_of_same_number(heir));
    how.become = [&](const forest::Node& node) {
        // An orphan is no descendant of ours: yama would refuse. In a pid namespace of its own we have no
        // number.
        ::prctl(PR_SET_PTRACER, node.space == 0 ? static_cast<unsigned long>(tool) : PR_SET_PTRACER_ANY);
        for (const auto i : computation.living)
            if (computation.processes[i].pid == node.pid) become(i, arrival, stage);
        ::_exit(127);
    };
    how.lead = [&](ProgramId session) { take_terminal(computation, objects.set, session); };
    how.own_pids = [&](const forest::Node& first) {
        const auto* const process = process_called(first.pid, computation);
        return process == nullptr ? 0
                                  : enter_owner_of_pids(*process, users_around(*process, computation),
                                                        computation, objects.set);
    };
    how.dress = [&](const forest::Node& node) { dress(computation, node); };
    auto made = forest::execute(plan.steps, how);
    if (!made) return std::unexpected(std::move(made.error()).in("forest"));
    for (auto& note : made->notes) notes.list.push_back(note);
    Forest forest{Undone<BoundIds, &BoundIds::unbind>(BoundIds(spaces.regions)), std::move(stage),
                  Undone<forest::Forest, &forest::Forest::kill_all>(std::move(*made))};
    CHECK_OK(bind_ids(*forest.processes, spaces.exact_ids, *forest.bound_ids));
    CHECK_OK(mount_inner_procs(computation, objects.set, [&](ProgramId id) { return forest.kernel_id(id); }));
    notes.print();
    return forest;
}

}  // namespace cairn::restart::pass
