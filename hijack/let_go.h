// A thread that a checkpoint or a restart is just letting go of is its tracee for some milliseconds more: who
// begins to trace it then would be told EPERM, as if somebody else traced it.
#pragma once

#include <sys/types.h>

namespace cairn::hijack {

// Who traces a thread, by /proc; both by the kernel's ids.
enum class HeldBy { nobody, a_tool, another };
[[nodiscard]] HeldBy who_holds(pid_t thread);

void wait_for_a_moment();

}  // namespace cairn::hijack
