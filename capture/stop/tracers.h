// Members that trace other members (debuggers, strace): a task has one tracer only, so each lets go of its
// tracees for as long as the checkpoint needs them, and takes them back in the stops that they were in. This
// is done by the agent in the tracing thread, which stays in there from the first of its tracees on until it
// has taken back the last. docs/decisions/0024-debuggers.md.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "capture/agent_run.h"
#include "capture/group.h"
#include "capture/report.h"
#include "capture/stop/seized_threads.h"
#include "common/tracee.h"

namespace cairn::capture {

// A member that traces others, with an agent in the thread that does.
struct Tracer {
    pid_t pid = 0, tid = 0;
    StoppedProcess* process = nullptr;  // borrowed
    std::optional<AgentRun> agent;
    std::vector<Tracee> tracees;  // in the order of Door::tracees
};

class Tracers {
  public:
    Tracers(const SessionRegions& regions, std::uint64_t capture, Reporter& reporter)
        : regions_(&regions), capture_(capture), reporter_(&reporter) {}

    // The process has an agent in it because it traces others; its registers have been read.
    [[nodiscard]] Tracer* find(pid_t pid);
    // By whom the thread was traced, and how. Null: it wasn't.
    struct Found {
        const Tracer& tracer;
        const Tracee& tracee;
    };
    [[nodiscard]] std::optional<Found> tracing_of(pid_t tid) const;
    [[nodiscard]] bool traces_any_of(pid_t pid) const;

    // The agent enters the thread. All threads of the process stand still, their registers are known, and
    // what the stop has left in them is hidden.
    [[nodiscard]] Result<Tracer*> enter(StoppedProcess& process, pid_t tid);
    // The thread sleeps at its own Door::park then, traced by nobody.
    [[nodiscard]] Result<> let_go(Tracer& tracer, pid_t pid, pid_t tid, ProgramAddress park);

    // Where the processes lie now.
    void rebind(std::map<pid_t, StoppedProcess>& processes);

    // Every tracer takes its tracees back and is left by its agent, who was entered last first. `process_of`
    // gives the process that a tracee's registers are to be taken from, null: they are what they were.
    template <class ProcessOf>
    void give_back(SeizedThreads& threads, ProcessOf process_of) {
        while (!tracers_.empty()) {
            Tracer& tracer = tracers_.back();
            for (auto& tracee : tracer.tracees) hand_over(threads, process_of(tracee.pid), tracee);
            take_back(tracer);
            tracers_.pop_back();
        }
    }

  private:
    [[nodiscard]] Result<> describe(const Tracer& tracer, Tracee& tracee) const;
    void hand_over(SeizedThreads& threads, const StoppedProcess* process, Tracee& tracee) const;
    void take_back(Tracer& tracer) const;

    const SessionRegions* regions_;
    std::uint64_t capture_;
    Reporter* reporter_;
    std::list<Tracer> tracers_;
};

}  // namespace cairn::capture
