// `cairn mpi trim`: what no recovery line can need any more is removed from a record, also while the job
// still runs (docs/decisions/0039-induced-checkpoints.md).
#pragma once

#include "common/error.h"
#include "mpi/tool/options.h"

namespace cairn::mpi::debug {

// Code refused: the record has no checkpoints, a rank can't run alone up to the line, or somebody debugs it.
// Nothing is removed then.
[[nodiscard]] Result<> trim(const tool::Options& options);

}  // namespace cairn::mpi::debug
