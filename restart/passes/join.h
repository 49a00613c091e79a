// Pass 4 of a restart: the coordinator is told who comes, and the other parts are waited for.
#pragma once

#include "common/error.h"
#include "restart/computation.h"
#include "restart/meeting.h"
#include "restart/options.h"

namespace cairn::restart::pass {

// A coordinator is started if none answers. Returns when all parts are here. Errors: of a stranger to the
// computation that is joined already (ExitCode::refused), ExitCode::no_coordinator, ExitCode::timed_out.
[[nodiscard]] Result<Meeting> join(const Options& options, const Computation& computation);

}  // namespace cairn::restart::pass
