// One process of a forest takes its steps. Runs in the forked processes; the tool uses the calls for its own
// steps.
#pragma once

#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "restart/forest/board.h"
#include "restart/forest/execute.h"

namespace cairn::restart::forest {

struct Shared {
    Shared(const Plan& the_plan, const Execution& the_way) : plan(the_plan), how(the_way) {}

    const Plan& plan;
    const Execution& how;
    std::shared_ptr<Board> board;
    KernelId tool, tool_group;
    Fd tool_alive;                   // pidfd of the tool: readable when it has exited
    std::vector<KernelId> reserved;  // exact ids, sorted: no helper may sit on one of them
    std::string core_directory;      // where zombies may dump core; "": nowhere
    std::vector<int> exit_signals;   // other than SIGCHLD that a parent will get
};

// What a process calls another one.
[[nodiscard]] KernelId called_by(const Shared& shared, int self, int other);

// The child's pid, in the parent. Children start in live() and never return. Fails with errno.
[[nodiscard]] Result<KernelId> fork_child(const Shared& shared, int child);

// The group that a process leads, 0 for oneself.
[[nodiscard]] KernelId group_of(const Shared& shared, int self, int leader);

// Waits for the exit of a child. `reap` false leaves it a zombie. nullopt: `block` is false and it lives.
struct Exit {
    int number = 0;  // errno, 0: it has exited
    bool exited = false;
    int status = 0;
};
[[nodiscard]] Exit child_exit(KernelId child, bool reap, bool block);

// Does the zombie show the status that it should? Notes a core flag that couldn't be had.
[[nodiscard]] bool status_fits(const Shared& shared, int process, int status);

}  // namespace cairn::restart::forest
