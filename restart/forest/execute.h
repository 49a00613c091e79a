// Runs a plan with real processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "restart/forest/plan.h"

namespace cairn::restart::forest {

struct Execution {
    // Exact: each process gets its old pid (clone3(2) set_tid, since Linux 5.5: needs CAP_CHECKPOINT_RESTORE
    // or CAP_SYS_ADMIN in the pid namespace). Else any pid, and Forest::made is the id map.
    bool exact_ids = false;
    // Exact: ids that nobody of the forest may have, for they are somebody's who is born later.
    std::vector<KernelId> reserved;
    // For the whole forest. When it passes, all is killed and the error says who waits for what.
    std::chrono::milliseconds deadline{30'000};
    // Called in each process that lives on, when its ids are final; it must not return. All signals are open
    // there, handlers are reset to the default, SIGCHLD is not ignored (an ignored one would reap zombies,
    // and outlive exec). glibc's idea of the thread id is right; descriptors are the tool's. The stack may be
    // deep. The tool finds it running when execute returns. An orphan is no descendant of the tool: under
    // yama's ptrace_scope 1 it has to allow the tool by PR_SET_PTRACER.
    std::function<void(const Node&)> become;
    // Called in each process that has just become the leader of a session (in a placeholder for a dead leader
    // too), before it forks anybody into it: where the session takes its terminal. May be empty.
    std::function<void(Id session)> lead;
    // Called in who is about to make a pid namespace for its first process: enters the user namespace that it
    // is to belong to. Returns an errno. May be empty.
    std::function<int(const Node& first)> own_pids;
    // Called in each zombie before it exits, to give it a name, uids, whatever shows: must return. May be
    // empty.
    std::function<void(const Node&)> dress;
};

class Board;

// The processes that a plan has made.
class Forest {
  public:
    Forest(std::shared_ptr<Board> board, std::vector<KernelId> pids)
        : board_(std::move(board)), pids_(std::move(pids)) {}

    // By the ids that the programs know: processes, zombies included, ids of groups and sessions whose leader
    // is dead, and ids from outside that mean the tool's session or group now.
    std::map<Id, KernelId> made;
    std::vector<std::string> notes;  // what couldn't be made exactly so, in words

    // Of each process of the plan; [0] is the caller.
    [[nodiscard]] const std::vector<KernelId>& pids() const { return pids_; }

    // Kills all of them, waits until they are gone (5 s at most) and reaps those that are the caller's
    // children. Returns those still there. Makes the caller a subreaper for the time.
    std::vector<KernelId> kill_all();

  private:
    std::shared_ptr<Board> board_;
    std::vector<KernelId> pids_;
};

// Called by the tool, with one thread. It takes part: it is the parent of the roots, and reaps no child of
// its own that isn't the plan's. Its own PR_SET_CHILD_SUBREAPER is off meanwhile (orphans shall get the
// parent that they would get from any shell here) and then as before. On failure every process is killed and
// the error names the step, the process, and who has a pid that is taken.
[[nodiscard]] Result<Forest> execute(const Plan& plan, const Execution& how);

}  // namespace cairn::restart::forest
