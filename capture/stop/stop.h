// Stops every thread of every member of the group, and finds members that nobody has told us of.
#pragma once

#include <map>
#include <vector>

#include "capture/group.h"
#include "capture/outsiders.h"
#include "capture/report.h"
#include "capture/stop/seized_threads.h"
#include "capture/stop/tracers.h"

namespace cairn::capture {

// Processes that stand still, registers read. They go on when this goes, and don't notice that they were
// stopped.
class StoppedGroup {
  public:
    StoppedGroup(std::map<pid_t, StoppedProcess> processes, std::vector<Zombie> zombies,
                 SeizedThreads threads, Tracers tracers)
        : processes_(std::move(processes)),
          zombies_(std::move(zombies)),
          threads_(std::move(threads)),
          tracers_(std::move(tracers)) {
        tracers_.rebind(processes_);
    }
    StoppedGroup(StoppedGroup&&) = default;
    StoppedGroup& operator=(StoppedGroup&&) = delete;
    StoppedGroup(const StoppedGroup&) = delete;
    StoppedGroup& operator=(const StoppedGroup&) = delete;
    ~StoppedGroup();

    [[nodiscard]] std::map<pid_t, StoppedProcess>& processes() { return processes_; }
    [[nodiscard]] std::vector<Zombie>& zombies() { return zombies_; }
    [[nodiscard]] const std::vector<Zombie>& zombies() const { return zombies_; }

    [[nodiscard]] Tracers& tracers() { return tracers_; }

    // Ends the pause of a checkpoint that has asked all seccomp filters (collect_filters). Registers and
    // masks must be the program's own again.
    void let_go();

  private:
    std::map<pid_t, StoppedProcess> processes_;
    std::vector<Zombie> zombies_;
    void give_back();  // tracers have their tracees again

    SeizedThreads threads_;
    Tracers tracers_;
};

// Who may be in motion while we stop the group, and what becomes of it:
//  - a child born this instant: the parent stops, its list of children names the child, it is stopped too;
//  - a vfork or posix_spawn child: its parent sleeps in the kernel and doesn't stop before the child has
//    execed or gone; only children of processes that stand still are looked at, so the child is let through;
//  - an exec under way: until the new image has mapped the region it can't be saved; it is let go and looked
//    at again. A thread that execs loses its id and takes the main thread's;
//  - an exit under way: it becomes a zombie, or is gone. Its children have another parent then, so
//    everybody's children are looked at again. A main thread that ends before its siblings is reported by
//    nobody;
//  - an orphan whose parent died before it could register: its birth slot is left; /proc is searched for it.
// Every wait ends at the reporter's deadline with the names of who is waited for.
[[nodiscard]] Result<StoppedGroup> stop_group(const std::vector<pid_t>& members,
                                              const SessionRegions& regions, Reporter& reporter,
                                              Outsiders& outsiders, std::uint64_t capture);

}  // namespace cairn::capture
