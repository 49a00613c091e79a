// Lazily, or all at once?
#pragma once

#include <vector>

#include "common/error.h"
#include "common/schema/process.h"
#include "restart/restart.h"

namespace cairn::restart::pages {

// Errors: ExitCode::refused where lazy memory was asked for and can't be had.
[[nodiscard]] Result<bool> choose_lazy(Memory wish, const std::vector<const schema::Process*>& processes);

}  // namespace cairn::restart::pages
