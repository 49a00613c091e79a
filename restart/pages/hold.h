// Holds threads at the end of the calls by which they change memory (why: restart/pages/changes.h).
//
// A thread whose change hasn't been told yet sleeps in the kernel until it has been (TASK_KILLABLE,
// userfaultfd_event_wait_completion in fs/userfaultfd.c): a ptrace interruption doesn't wake it, and cuts
// nothing short; it stops the thread on its way back to the program. No thread in any other call is touched.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace cairn::restart::pages {

// The process and whoever else has the same memory (clone(2) with CLONE_VM).
[[nodiscard]] std::vector<pid_t> sharing_memory(pid_t pid);

class Hold {
  public:
    // Seizes every thread of these processes that sleeps in a call that changes memory; returns when a thread
    // that had queued an event before now is surely seized. False: there is none, or one that can't be
    // seized: who has made the change that is read next isn't held.
    [[nodiscard]] bool seize_changing(const std::vector<pid_t>& processes);

    // The child of the fork whose event has just been read: waits until the thread that has called it stops.
    // 0 if there is no child, or it can't be named.
    [[nodiscard]] pid_t forked();

    // All go on. Who hasn't reached the end of his call yet does so later, when sweep() is called.
    void release();
    void sweep();

  private:
    struct Thread {
        std::optional<int> status;  // of waitpid(2): it has stopped
        bool counted = false;       // its fork has been told of
        bool leaving = false;       // goes on as soon as it stops
    };
    bool seize(pid_t tid);
    // Whether it has reached the end of its call.
    static bool at_end(pid_t tid, Thread& thread);

    std::map<pid_t, Thread> seized_;
};

}  // namespace cairn::restart::pages
