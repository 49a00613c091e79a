// Threads that were stopped inside the vdso.
#pragma once

#include "capture/group.h"

namespace cairn::capture {

// Lets each thread of a process that stands still go on, step by step, until it is out of the vdso: there it
// reads the clock by numbers that only the running kernel has, so another couldn't let it finish. A thread
// that can't be led out (its process is stopped by job control or ignores SIGTRAP, or it doesn't come out)
// stays where it is: a restart on the same kernel takes it, others refuse it by name (restart/old_vdso.h).
// Errors: it has ended, or was stopped by somebody else meanwhile (Error::passing).
[[nodiscard]] Result<> leave_vdso(StoppedProcess& process);

}  // namespace cairn::capture
