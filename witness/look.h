// A look at processes and all below them.
#pragma once

#include <sys/types.h>

#include <vector>

#include "witness/facts.h"

namespace cairn::witness {

[[nodiscard]] Result<Facts> look(const std::vector<pid_t>& processes);

}  // namespace cairn::witness
