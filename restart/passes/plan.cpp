#include "restart/passes/plan.h"

#include <utility>

#include "restart/launched.h"

namespace cairn::restart::pass {

Result<Plan> plan(Computation& computation, std::uint64_t ignored) {
    auto nodes = forest::nodes_of(computation.processes);
    auto heirs = find_heirs(computation.processes, computation.objects.objects);
    auto born_early = nodes;
    std::erase_if(born_early, [&](const forest::Node& node) { return heirs.contains(node.pid); });
    auto steps = forest::make_plan(std::move(born_early));
    if (!steps) return std::unexpected(std::move(steps.error()).in("forest"));
    tie_to_tool(computation.processes, nodes, ignored);
    return Plan{std::move(nodes), std::move(*steps), std::move(heirs)};
}

}  // namespace cairn::restart::pass
