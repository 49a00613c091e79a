// Pass 2 of a restart: the steps by which the forest of processes is made again are planned.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "restart/computation.h"
#include "restart/forest/plan.h"
#include "restart/heirs/find.h"

namespace cairn::restart::pass {

struct Plan {
    std::vector<forest::Node> nodes;
    forest::Plan steps;
    Heirs heirs;  // they are none of the steps'
};

// `ignored`: the signals that were ignored when the restart began (ignored_signals()). The launched programs
// are tied to the restart tool: what that means for them is entered into `computation` (launched.h).
[[nodiscard]] Result<Plan> plan(Computation& computation, std::uint64_t ignored);

}  // namespace cairn::restart::pass
