// A copy-on-write child of a process, from which the image is written while the program goes on.
#pragma once

#include "capture/agent_run.h"

namespace cairn::capture {

// Ends it when it goes; and should we be killed, our ptrace relation makes the kernel do so.
class Snapshot {
  public:
    explicit Snapshot(SnapshotChild child);
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    ~Snapshot();
    // It isn't needed any more. The kernel takes a while to free its memory (70 ms for 1 GiB), which is
    // waited for only when this goes.
    void end();
    [[nodiscard]] pid_t pid() const { return child_.pid; }

  private:
    SnapshotChild child_;
    bool seized_ = false, ended_ = false;
};

}  // namespace cairn::capture
