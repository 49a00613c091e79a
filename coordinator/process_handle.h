// A process that somebody has to follow, told from any other that is given its pid later.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::coordinator {

// A pidfd; none, with errno: the process has gone, or no descriptor is left.
[[nodiscard]] Fd open_pidfd(pid_t pid);

// By a pidfd as long as there are descriptors to spare. A computation may have more processes than its
// coordinator may have descriptors: the others are known by pid and start time, and have to be looked at.
class ProcessHandle {
  public:
    // Errors: number ESRCH if there is no such process; anything else says nothing about it.
    [[nodiscard]] static Result<ProcessHandle> of(pid_t pid);

    enum class Sent { yes, gone, unclear };
    // Signal 0 only asks. unclear: it may live, but can't be reached now (no descriptor is left, or it may
    // not be signalled).
    [[nodiscard]] Sent signal(int number) const;

    // A pidfd, which becomes readable when the process has ended; -1: none could be spared.
    [[nodiscard]] int fd() const { return pidfd_.get(); }

  private:
    pid_t pid_ = 0;
    std::uint64_t started_ = 0;  // clock ticks after boot; 0 where there is a pidfd
    Fd pidfd_;
};

}  // namespace cairn::coordinator
