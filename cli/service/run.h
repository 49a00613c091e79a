// `cairn service run NAME`: what a unit of systemd's runs.
#pragma once

#include "cli/service/settings.h"

namespace cairn::service {

// Goes on from the newest good checkpoint, or launches the programs, and stays until they have ended or a
// SIGTERM asks to save and end them. 0 then, else the exit code of the first program.
[[nodiscard]] Result<int> run(const Settings& settings);

}  // namespace cairn::service
