// A restart of one part or more, as a list of passes: docs/architecture.md.
#pragma once

#include "common/error.h"
#include "restart/options.h"

namespace cairn::restart {

// Returns when the computation's first process has ended, with its exit status (as a shell gives it).
[[nodiscard]] Result<int> restart(Options options);

}  // namespace cairn::restart
