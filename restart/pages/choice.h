// Lazily, or all at once?
#pragma once

#include "common/error.h"
#include "restart/options.h"

namespace cairn::restart::pages {

// Errors: ExitCode::refused where lazy memory was asked for and can't be had.
[[nodiscard]] Result<bool> choose_lazy(Memory wish);

}  // namespace cairn::restart::pages
