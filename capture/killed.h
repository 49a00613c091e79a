// A member that is killed while it is being saved (SIGKILL ends it however it stands) takes along what is
// asked of it. That is no reason to give a checkpoint up: without it the next attempt saves the others.
#pragma once

#include <sys/types.h>

#include "capture/group.h"
#include "capture/stop/stop.h"
#include "common/error.h"

namespace cairn::capture {

// Of one that nobody has let go. Waits for one that is about to end, for 50 ms at most.
[[nodiscard]] bool is_killed(const StoppedProcess& process);

// Looks who has been killed when an attempt is over that has not gone well: everybody still stands, and
// nobody ends of himself. It has to end between those who bring agents back out and the group.
class LookForKilled {
  public:
    // `killed`: where the pid goes; borrowed, as is the group.
    LookForKilled(StoppedGroup& group, pid_t& killed) : group_(&group), killed_(&killed) {}
    ~LookForKilled();
    LookForKilled(const LookForKilled&) = delete;
    LookForKilled& operator=(const LookForKilled&) = delete;
    // The programs run on.
    void leave_off() { group_ = nullptr; }

  private:
    StoppedGroup* group_;
    pid_t* killed_;
};

// In the place of whatever was said of it.
[[nodiscard]] Error killed_meanwhile(pid_t pid);

}  // namespace cairn::capture
