// Pass 1 of a restart: the manifest and the metadata of every image are read and checked.
#pragma once

#include "common/error.h"
#include "restart/computation.h"
#include "restart/notes.h"
#include "restart/options.h"

namespace cairn::restart::pass {

// Of the parts that are asked for. Errors: ExitCode::damaged or refused, by name.
[[nodiscard]] Result<Computation> read(const Options& options, Notes& notes);

}  // namespace cairn::restart::pass
