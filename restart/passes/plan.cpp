#include "restart/passes/plan.h"

#include "restart/launched.h"

namespace cairn::restart::pass {

Result<Plan> plan(Computation& computation, std::uint64_t ignored) {
    auto nodes = forest::nodes_of(computation.processes);
    auto steps = forest::make_plan(nodes);
    if (!steps) return std::unexpected(std::move(steps.error()).in("forest"));
    tie_to_tool(computation.processes, nodes, ignored);
    return Plan{std::move(nodes), std::move(*steps)};
}

}  // namespace cairn::restart::pass
