// Is a generation whole? Every byte that a restart of it would read is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/generations/find.h"

namespace cairn::generations {

struct Verified {
    Generation generation;
    std::int64_t taken_at_ns = 0;       // of CLOCK_REALTIME; 0: not known
    std::uint64_t bytes = 0;            // of pages and saved files that were read and are right
    std::vector<std::string> problems;  // each names its file; none: it is whole

    [[nodiscard]] bool whole() const { return problems.empty(); }
};

// Manifest, images, those of earlier generations that it needs, every page of it, and the files that were
// saved with it.
[[nodiscard]] Verified verify(const Generation& generation);

}  // namespace cairn::generations
