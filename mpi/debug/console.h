// `cairn mpi debug`: a line for each command, from a terminal or a pipe.
#pragma once

#include "mpi/tool/options.h"

namespace cairn::mpi::debug {

[[nodiscard]] Result<> debug(const tool::Options& options);

}  // namespace cairn::mpi::debug
