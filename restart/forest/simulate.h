// Runs a plan on the model of the kernel, and compares what comes out with what went in.
#pragma once

#include <functional>
#include <map>

#include "restart/forest/kernel.h"
#include "restart/forest/plan.h"

namespace cairn::restart::forest {

struct Simulation {
    bool exact_ids = true;
    // Of n processes that could take a step now (n > 0), which one does: 0..n-1.
    std::function<std::size_t(std::size_t n)> choose = [](std::size_t) { return std::size_t{0}; };
    bool tool_leads_session = false;
};

struct Simulated {
    Kernel kernel;
    KernelId tool;
    std::vector<KernelId> made;  // of each process of the plan; not known(): never born
};

// Fails with the step that the kernel refused, or with who waits for what if nobody can go on.
[[nodiscard]] Result<Simulated> simulate(const Plan& plan, const Simulation& how);

// One process as the kernel shows it after a restart. For the model and for /proc alike.
struct Seen {
    KernelId pid{}, ppid{}, sid{}, pgid{};
    bool zombie = false;
    std::int32_t wait_status = 0;
    bool subreaper = false;
};
// What must be known to compare: the tool's own ids, and who adopts its orphans.
struct Surroundings {
    KernelId tool{}, tool_sid{}, tool_pgid{}, adoptive{};
};

// Compares each node with what is `seen` of it, ids mapped by the plan's processes (`made` as in Simulated).
// Ids must map one to one. Fails with the first difference, naming the pid.
[[nodiscard]] Result<> compare(const Plan& plan, const std::vector<KernelId>& made,
                               const std::map<KernelId, Seen>& seen, const Surroundings& surroundings);

// simulate, compare, and check that nothing is left of the helpers.
[[nodiscard]] Result<> check(const Plan& plan, const Simulation& how);

}  // namespace cairn::restart::forest
