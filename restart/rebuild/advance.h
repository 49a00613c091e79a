// What a process that is rebuilt says by its traps.
#pragma once

#include "common/error.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// A thread of the process has trapped. True when the process is complete.
[[nodiscard]] Result<bool> trapped(Rebuilding& rebuilding);

// An error, in words, if the restorer gave up.
[[nodiscard]] Result<> check_restorer(const Rebuilding& rebuilding);

}  // namespace cairn::restart
