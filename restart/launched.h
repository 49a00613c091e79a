// The programs that were launched, of which the restart tool is the parent now: what ties them to it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/schema/process.h"
#include "restart/forest/node.h"

namespace cairn::restart {

// Those that are nobody's children any more (daemons) aren't among
// them.
[[nodiscard]] std::vector<ProgramId> launched_programs(std::span<const forest::Node> nodes);

// SIGKILL to whoever has been started can't be handed on by him: the kernel does it (PR_SET_PDEATHSIG),
// unless the program asks for another signal at its parent's death. Under nohup(1) a restart is to outlive
// its terminal, and so are the programs that come back in its session: those that don't handle SIGHUP ignore
// it. `ignored`: ignored_signals() of the tool.
void tie_to_tool(std::span<schema::Process> processes, std::span<const forest::Node> nodes,
                 std::uint64_t ignored);

// Ends this process as a child with this wait status has ended: by the same signal (without a core file), for
// a shell looks whether its job was interrupted. Returns what is to be the exit code.
[[nodiscard]] int end_as(int status);

}  // namespace cairn::restart
