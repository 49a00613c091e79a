// A member that is killed while it is being saved (SIGKILL ends it however it stands) takes along what is
// asked of it. That is no reason to give a checkpoint up: without it the next attempt saves the others.
#pragma once

#include <sys/types.h>

#include <vector>

#include "capture/group.h"
#include "capture/stop/stop.h"
#include "common/error.h"

namespace cairn::capture {

// Waits for one that is about to end, for 50 ms at most.
[[nodiscard]] bool is_killed(const StoppedProcess& process);

// Who stands still, to be asked after everything that was done to them is undone.
class Standing {
  public:
    void are(StoppedGroup& group);
    void go_on() { all_.clear(); }
    // If somebody has ended who stood still, the error is that, and it passes. Waits for one that is about to
    // end, as is_killed() does.
    void blame_the_killed(Error& error) const;

  private:
    struct One {
        pid_t pid, living;  // the process, and a thread of it that lived
    };
    std::vector<One> all_;
};

}  // namespace cairn::capture
