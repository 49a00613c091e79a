// A checkpoint as one file for a browser: processes as a tree, generations in time, memory as a picture,
// descriptors and who else has them, stacks. It needs nothing but itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/inspect_load.h"

namespace cairn::inspect {

struct PageGeneration {
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;
    std::int64_t taken_at_ns = 0, pause_ns = 0, total_ns = 0;
};

// `stacks`: of each process of the checkpoint, in their order, as text.
[[nodiscard]] std::string as_page(const Checkpoint& checkpoint,
                                  const std::vector<PageGeneration>& generations,
                                  const std::vector<std::string>& stacks);

}  // namespace cairn::inspect
