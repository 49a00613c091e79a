// Pass 11 of a restart: the tool is the parent of the computation's roots now, as the shell was, and waits
// for them.
#pragma once

#include "common/error.h"
#include "restart/computation.h"
#include "restart/meeting.h"
#include "restart/options.h"
#include "restart/passes/go.h"
#include "restart/passes/open.h"
#include "restart/passes/spaces.h"

namespace cairn::restart::pass {

// First all that the programs have now is closed here: an end of a pipe that the tool holds delays the end of
// file. Returns the exit status of the computation's first process (as a shell gives it), when all children
// have ended.
[[nodiscard]] Result<int> stay(const Options& options, const Computation& computation, Spaces spaces,
                               Objects objects, Meeting meeting, Running running);

}  // namespace cairn::restart::pass
