// `cairn restart --verify`: cairn-witness says what the kernel shows otherwise than before the checkpoint.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::restart {

// Refused where nobody has looked before the checkpoint (`cairn checkpoint --witness`). `checkpoint`: its
// folder.
[[nodiscard]] Result<> can_verify(const std::string& checkpoint);

// Starts it, as a child, which writes to standard error and ends by itself. `programs`: the kernel's ids;
// `region`: path of the session's. An error costs the programs nothing.
[[nodiscard]] Result<> start_verifying(const std::string& checkpoint, const std::vector<pid_t>& programs,
                                       const std::string& region);

}  // namespace cairn::restart
