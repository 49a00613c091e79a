// `cairn slurm run`: runs a program within a batch job so that the job can be requeued, and goes on from its
// newest good checkpoint.
#pragma once

#include "cli/slurm/settings.h"

namespace cairn::slurm {

// The program's exit code.
[[nodiscard]] Result<int> run(const Settings& settings);

}  // namespace cairn::slurm
