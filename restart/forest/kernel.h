// The kernel's rules for processes, groups and sessions, as a model: what fork(2), setsid(2), setpgid(2),
// _exit(2), wait(2) and PR_SET_CHILD_SUBREAPER do, after kernel/sys.c, kernel/exit.c and kernel/pid.c of
// Linux 6.1.
#pragma once

#include <map>
#include <set>

#include "common/error.h"
#include "restart/forest/node.h"

namespace cairn::restart::forest {

class Kernel {
  public:
    struct Task {
        Id pid = 0, parent = 0, sid = 0, pgid = 0;
        bool subreaper = false;
        bool zombie = false;
        bool execed = false;
        std::int32_t wait_status = 0;
        std::set<Id> children{};
    };

    static constexpr Id init = 1;

    Kernel();

    // Fails with EEXIST if the pid is in use: as a process, a zombie included, a group or a session.
    Result<> fork(Id caller, Id child);
    Result<> setsid(Id caller);
    // pid, pgid 0: the caller itself, its own pid.
    Result<> setpgid(Id caller, Id pid, Id pgid);
    Result<> exec(Id caller);
    Result<> set_subreaper(Id caller, bool on);
    // Children move to the nearest subreaper among the living ancestors, else to init, which reaps its
    // zombies.
    Result<> exit(Id caller, std::int32_t wait_status);
    // Fails with EAGAIN while the child lives, ECHILD if it is no child.
    Result<> wait(Id caller, Id child);

    [[nodiscard]] const std::map<Id, Task>& tasks() const { return tasks_; }
    [[nodiscard]] bool in_use(Id id) const;

  private:
    Task* living(Id pid);
    void release(Id pid);
    [[nodiscard]] Id adoptive_parent(const Task& task) const;

    std::map<Id, Task> tasks_;
    std::map<Id, int> groups_, sessions_;  // id -> number of members
};

}  // namespace cairn::restart::forest
