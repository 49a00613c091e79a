// Pass 2: stops every thread of every member of the group, and finds members that nobody has told us of.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capture/group.h"
#include "capture/outsiders.h"
#include "capture/report.h"
#include "capture/seize.h"

namespace cairn::capture {

// Who may be in motion while we stop the group, and what becomes of it:
//  - a child born this instant: the parent stops, its list of children names the child, it is stopped too;
//  - a vfork or posix_spawn child: its parent sleeps in the kernel and doesn't stop before the child has
//  execed or
//    gone; only children of processes that stand still are looked at, so the child is let through;
//  - an exec under way: until the new image has mapped the region it can't be saved; it is let go and looked
//  at again. A thread that execs loses its id and takes the main thread's;
//  - an exit under way: it becomes a zombie, or is gone. Its children have another parent then, so
//  everybody's children are looked at again. A main thread that ends before its siblings is reported by
//  nobody;
//  - an orphan whose parent died before it could register: its birth slot is left; /proc is searched for it.
// Every wait ends at the reporter's deadline with the names of who is waited for.
class Stopper {
  public:
    // All three are borrowed.
    Stopper(const SessionRegions& regions, Reporter& reporter, Outsiders& outsiders);
    Stopper(const Stopper&) = delete;
    Stopper& operator=(const Stopper&) = delete;
    // Lets everybody go on who is still stopped.
    ~Stopper();

    // Leaves every member stopped, registers read.
    [[nodiscard]] Result<> stop(const std::vector<pid_t>& members);

    [[nodiscard]] std::map<pid_t, StoppedProcess>& processes() { return processes_; }
    [[nodiscard]] const std::vector<Zombie>& zombies() const { return zombies_; }

    // Ends the pause of a checkpoint that has asked all seccomp filters (collect_filters). Registers and
    // masks must be the program's own again.
    void let_go();

  private:
    struct Task {
        pid_t pid = 0;
        bool still = false;
        int stop_signal = 0;  // of a group stop
    };

    [[nodiscard]] Result<> add(pid_t pid);
    // True: every thread that there is is seized. False: look again.
    [[nodiscard]] Result<bool> seize_new_threads(pid_t pid);
    [[nodiscard]] Result<> refuse_tracing(pid_t pid, pid_t tid, const Error& why);
    void drain_events();
    void look_at(const WaitEvent& event);
    void look_after_silent();
    void execed(pid_t pid);
    [[nodiscard]] bool all_still(pid_t pid) const;
    [[nodiscard]] bool find_doors(StoppedProcess& process);
    [[nodiscard]] bool look_for_children(StoppedProcess& process);
    [[nodiscard]] bool no_more_children();
    [[nodiscard]] Result<bool> look_for_births();
    [[nodiscard]] bool orphan_on_its_way();
    void release(pid_t pid);
    static void spare_restart(pid_t tid);
    void settle_still(StoppedProcess& process);
    [[nodiscard]] Result<bool> read_registers(StoppedProcess& process);
    [[nodiscard]] Result<bool> read_all_registers();
    [[nodiscard]] Result<> check_shared_memory() const;
    [[nodiscard]] std::string waiting_for() const;
    // What may be believed of a process, and in whose region it stands.
    struct Registration {
        const SessionRegion* region = nullptr;
        Slot* slot = nullptr;

        explicit operator bool() const { return slot != nullptr; }
    };
    [[nodiscard]] Registration registration_of(pid_t pid) const;
    [[nodiscard]] bool is_claimed_rightly(const SessionRegion& region, pid_t pid) const;
    [[nodiscard]] bool left_out(pid_t pid, const Slot& slot);

    [[nodiscard]] bool nobody_has_come();

    const SessionRegions& regions_;
    Reporter& reporter_;
    Outsiders& outsiders_;
    std::map<pid_t, Task> tasks_;    // every thread that is seized
    std::vector<WaitEvent> events_;  // seen while a seize had to wait, not looked at yet
    std::map<pid_t, StoppedProcess> processes_;
    std::set<pid_t> candidates_;  // to be stopped; not ready yet
    std::set<pid_t> looked_at_;   // still, and its children are known
    std::vector<Zombie> zombies_;
    std::set<pid_t> left_out_;  // foreign processes, noted
    std::map<pid_t, pid_t> parent_of_;
    std::map<pid_t, Clock::time_point> refused_since_;  // threads that we may not seize
    Clock::time_point looked_after_silent_ = Clock::now();
    std::optional<Clock::time_point> orphans_since_;  // births whose parents have gone
};

}  // namespace cairn::capture
