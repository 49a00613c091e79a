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
        KernelId pid{}, parent{}, sid{}, pgid{};
        bool subreaper = false;
        bool zombie = false;
        bool execed = false;
        std::int32_t wait_status = 0;
        std::set<KernelId> children{};
    };

    static constexpr KernelId init{1};

    Kernel();

    // Fails with EEXIST if the pid is in use: as a process, a zombie included, a group or a session.
    Result<> fork(KernelId caller, KernelId child);
    Result<> setsid(KernelId caller);
    // pid, pgid 0: the caller itself, its own pid.
    Result<> setpgid(KernelId caller, KernelId pid, KernelId pgid);
    Result<> exec(KernelId caller);
    Result<> set_subreaper(KernelId caller, bool on);
    // Children move to the nearest subreaper among the living ancestors, else to init, which reaps its
    // zombies.
    Result<> exit(KernelId caller, std::int32_t wait_status);
    // Fails with EAGAIN while the child lives, ECHILD if it is no child.
    Result<> wait(KernelId caller, KernelId child);

    [[nodiscard]] const std::map<KernelId, Task>& tasks() const { return tasks_; }
    [[nodiscard]] bool in_use(KernelId id) const;

  private:
    Task* living(KernelId pid);
    void release(KernelId pid);
    [[nodiscard]] KernelId adoptive_parent(const Task& task) const;

    std::map<KernelId, Task> tasks_;
    std::map<KernelId, int> groups_, sessions_;  // id -> number of members
};

}  // namespace cairn::restart::forest
