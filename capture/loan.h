// Descriptors that a program's agent sends to the capture, where they may not be taken from it.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "capture/agent_run.h"

namespace cairn::capture {

class Loans {
  public:
    // Of the process `pid`, in which the agent is: duplicates of these descriptors, in their order.
    [[nodiscard]] Result<std::vector<Fd>> borrow(AgentRun& agent, pid_t pid,
                                                 std::span<const ProgramFd> numbers,
                                                 const Reporter& reporter);

  private:
    [[nodiscard]] Result<> listen();
    [[nodiscard]] Result<Fd> accept_from(pid_t pid) const;
    Fd listener_;  // made for the first loan
    std::vector<std::byte> address_;
};

}  // namespace cairn::capture
