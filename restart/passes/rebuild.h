// Pass 8 of a restart: every process executes its program, traced, and the restorer rebuilds it: memory,
// threads, everything else.
#pragma once

#include <memory>
#include <vector>

#include "common/error.h"
#include "restart/computation.h"
#include "restart/meeting.h"
#include "restart/pages/service.h"
#include "restart/passes/forest.h"
#include "restart/passes/open.h"
#include "restart/passes/spaces.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart::pass {

// All stand still, complete.
struct Rebuilt {
    std::unique_ptr<pages::Service> pages;  // null: all memory is there
    Forest forest;
    std::vector<Rebuilding> processes;  // in the order of Computation::living
};

[[nodiscard]] Result<Rebuilt> rebuild(const Computation& computation, const Plan& plan, const Spaces& spaces,
                                      Objects& objects, const Meeting& meeting, Forest forest);

}  // namespace cairn::restart::pass
