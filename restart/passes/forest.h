// Pass 7 of a restart: the plan is executed, and every process waits to be entered.
#pragma once

#include <map>

#include "common/error.h"
#include "restart/bound_ids.h"
#include "restart/computation.h"
#include "restart/forest/execute.h"
#include "restart/notes.h"
#include "restart/passes/open.h"
#include "restart/passes/plan.h"
#include "restart/passes/spaces.h"
#include "restart/stage.h"
#include "restart/undone.h"

namespace cairn::restart::pass {

// Given up, the processes are killed before anything else is undone.
struct Forest {
    Undone<BoundIds, &BoundIds::unbind> bound_ids;
    Stage stage;  // a place for each of Computation::processes
    Undone<forest::Forest, &forest::Forest::kill_all> processes;

    // Of a process of the computation.
    [[nodiscard]] KernelId kernel_id(ProgramId id) const { return processes->made.at(id); }
};

[[nodiscard]] Result<Forest> forest(const Computation& computation, const Plan& plan, const Spaces& spaces,
                                    const Objects& objects, Notes& notes);

}  // namespace cairn::restart::pass
