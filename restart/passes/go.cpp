#include "restart/passes/go.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "common/human.h"
#include "common/proc.h"
#include "restart/launched.h"
#include "restart/pause.h"
#include "restart/rebuild/hand_over.h"
#include "restart/rebuild/last_files.h"
#include "restart/rebuild/leave.h"

namespace cairn::restart::pass {
namespace {

// How many ancestors of the process are in the computation.
int depth_of(const schema::Process& process, const std::vector<schema::Process>& processes) {
    int depth = 0;
    for (ProgramId id = process.ppid;; ++depth) {
        const auto parent = std::ranges::find(processes, id, &schema::Process::pid);
        if (parent == processes.end()) return depth;
        id = parent->ppid;
    }
}

// Those that stood still by job control go first, and stop: children before their parents, so that these can
// be told of it, without the program.
Result<> stop_again(const Options& options, const Computation& computation,
                    const std::vector<Rebuilding>& processes, Notes& notes) {
    std::vector<std::pair<int, const Rebuilding*>> stopped;
    for (const auto& one : processes)
        if (one.process->run == schema::Run::stopped)
            stopped.emplace_back(-depth_of(*one.process, computation.processes), &one);
    std::ranges::sort(stopped);
    for (const auto& [depth, one] : stopped) {
        CHECK_OK(begin_to_go(*one));
        CHECK_OK(await_prepared(*one));
        set_limits(*one, notes.list);
        CHECK_OK(change_environment(*one, options.environment));
        auto unmapping = TRY(set_other_threads(*one));
        CHECK_OK(set_main_thread(*one, unmapping));
        let_go(*one);
        for (int tries = 0; tries < 1000; ++tries) {
            auto stat = proc::stat(one->pid);
            if (!stat || stat->state == 'T') break;
            ::usleep(1000);
        }
    }
    return {};
}

// Those that don't stop again. Children come before their parents where somebody is to see them stand still.
std::vector<const Rebuilding*> going_on(const Options& options, const Computation& computation,
                                        const std::vector<Rebuilding>& processes) {
    std::vector<const Rebuilding*> running;
    for (const auto& one : processes)
        if (one.process->run != schema::Run::stopped) running.push_back(&one);
    if (options.pause)
        std::ranges::stable_sort(running, std::greater(), [&](const Rebuilding* one) {
            return depth_of(*one->process, computation.processes);
        });
    return running;
}

Result<> prepare_all(const Options& options, const std::vector<const Rebuilding*>& running, Notes& notes) {
    for (const auto* one : running) CHECK_OK(begin_to_go(*one));
    for (const auto* one : running) CHECK_OK(await_prepared(*one));
    std::vector<ptrace::RemoteCall> unmapping;
    for (const auto* one : running) {
        set_limits(*one, notes.list);
        CHECK_OK(change_environment(*one, options.environment));
        unmapping.push_back(TRY(set_other_threads(*one)));
    }
    for (auto& call : unmapping) CHECK_OK(call.go_on());
    for (std::size_t i = 0; i < running.size(); ++i) CHECK_OK(set_main_thread(*running[i], unmapping[i]));
    return {};
}

// Of the terminal that the restart was started from.
std::vector<pid_t> foreground_of(const Computation& computation, const Forest& forest) {
    const auto objects = index_objects(computation.objects.objects);
    std::vector<pid_t> group;
    for (const auto i : computation.living) {
        const schema::Process& process = computation.processes[i];
        const auto found = objects.find(process.terminal);
        const auto* terminal = found == objects.end() ? nullptr : found->second->get<schema::Terminal>();
        if (terminal != nullptr && process.pgid == terminal->terminal.foreground)
            group.push_back(forest.kernel_id(process.pid).number());
    }
    return group;
}

std::vector<pid_t> all_of(const Computation& computation, const Forest& forest) {
    std::vector<pid_t> programs;
    for (const auto i : computation.living)
        programs.push_back(forest.kernel_id(computation.processes[i].pid).number());
    return programs;
}

// Nothing is undone any more.
void keep_all(Ready& ready, Objects& objects) {
    ready.slots.keep();
    ready.rebuilt.forest.processes.keep();
    ready.rebuilt.forest.bound_ids.keep();
    objects.system_v.keep();
    if (ready.rebuilt.pages) ready.rebuilt.pages->release();
}

}  // namespace

Result<Running> go(const Options& options, const Computation& computation, const Plan& plan, Objects& objects,
                   Meeting& meeting, Ready given, std::uint64_t ignored, Notes& notes) {
    Ready ready = std::move(given);
    const Forest& forest = ready.rebuilt.forest;
    if (objects.put_back) CHECK_OK(objects.put_back->commit(notes.list));
    CHECK_OK(objects.set.change_files(computation.objects.reader, notes.list));
    notes.print();
    CHECK_OK(open_last_files(ready.rebuilt.processes, index_objects(computation.objects.objects)));
    std::vector<pid_t> launched;
    for (const auto id : launched_programs(plan.nodes)) launched.push_back(forest.kernel_id(id).number());
    auto deputy = std::make_unique<Deputy>(std::move(launched), ignored);
    CHECK_OK(stop_again(options, computation, ready.rebuilt.processes, notes));
    const auto running = going_on(options, computation, ready.rebuilt.processes);
    CHECK_OK(prepare_all(options, running, notes));
    if (options.pause && is_any_traced(ready.rebuilt.processes))
        return fail_code(
            ExitCode::refused,
            "--pause: some of the programs are traced by others of them (a debugger), and can't be "
            "stopped for another");
    CHECK_OK(hand_over(ready.rebuilt.processes));
    if (options.pause) {
        CHECK_OK(stand_still(running));
    } else {
        for (const auto* one : running) let_go(*one);
    }
    keep_all(ready, objects);
    meeting.say_done();
    notes.say("{} of computation {} {} on (generation {})",
              human_count(computation.living.size(), "process", "processes"), computation.manifest.cid,
              computation.living.size() == 1 ? "goes" : "go", computation.manifest.generation);
    notes.print();
    if (options.pause) wait_paused(running, notes);
    return Running{forest.kernel_id(first_process(computation.processes)),
                   std::move(deputy),
                   std::move(ready.rebuilt.pages),
                   ready.launcher,
                   foreground_of(computation, forest),
                   all_of(computation, forest)};
}

}  // namespace cairn::restart::pass
