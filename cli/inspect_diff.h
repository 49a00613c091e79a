// `cairn inspect --diff OLD NEW`: what differs between two checkpoints, by what they say of processes,
// threads, mappings, descriptors and what these lead to.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/inspect_load.h"

namespace cairn::inspect {

struct Difference {
    std::vector<std::string> where;  // "process 1234 (bash)", "descriptor 3", "position"
    std::optional<nlohmann::json> before, after;
};

// `all`: what moves by itself as well (registers, processor times, where pages stand in an image).
[[nodiscard]] std::vector<Difference> differences(const Checkpoint& older, const Checkpoint& newer, bool all);

// For people, one process after the other.
[[nodiscard]] std::string as_text(const Checkpoint& older, const Checkpoint& newer,
                                  const std::vector<Difference>& differences);
// An array of {"where": [...], "before": ..., "after": ...}; what isn't there is missing.
[[nodiscard]] nlohmann::json as_json(const std::vector<Difference>& differences);

}  // namespace cairn::inspect
