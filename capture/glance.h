// A look at what the threads of living processes are in, for who debugs them (`cairn list --stacks`).
#pragma once

#include <sys/types.h>

#include "capture/session_regions.h"
#include "common/python/frames.h"
#include "common/wire/glance.h"

namespace cairn::capture {

// Stops the threads of one member, copies their registers and what is in use of their stacks, and lets them
// go, as a checkpoint that is given up does: the program doesn't notice. Whoever can't be looked at is told
// of in Glance::problem. The caller has SIGCHLD blocked and takes SIGALRM (capture/seize.h). `python`: what
// the process has of it; without a `runtime`, nothing.
[[nodiscard]] wire::Glance glance(const SessionRegions& regions, pid_t pid,
                                  const python::Interpreter& python);

}  // namespace cairn::capture
