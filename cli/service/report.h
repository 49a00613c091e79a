// What is told of a service that somebody else runs, or nobody: `cairn service status`, `check` and `forget`.
#pragma once

#include "cli/service/settings.h"

namespace cairn::service {

[[nodiscard]] Result<int> show_status(const Settings& settings, bool json);

// Whether its next start would work: 0, or ExitCode::refused.
[[nodiscard]] Result<int> check(const Settings& settings, bool json);

// Gives the checkpoints up. Refused while the service runs.
[[nodiscard]] Result<int> forget(const Settings& settings);

}  // namespace cairn::service
