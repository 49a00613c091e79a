// `cairn mpi break`, `continue` and `where`: where each process stops, and where it stands.
#pragma once

#include "mpi/tool/options.h"

namespace cairn::mpi::tool {

[[nodiscard]] Result<> break_at(const Options& options);
[[nodiscard]] Result<> go_on(const Options& options);
[[nodiscard]] Result<> where(const Options& options);

}  // namespace cairn::mpi::tool
