// A part of a computation that is small enough to be drawn.
#pragma once

#include <vector>

#include "causality/computation.h"

namespace cairn::causality {

struct Window {
    Computation computation;
    std::vector<Position> base;  // of each process: the position of its first event in the whole
};

// `most` events in the order of causes: the first, or those around one. What has its other half outside (a
// receive without its send, a part in an operation that isn't whole in it) is an internal event in it.
[[nodiscard]] Result<Window> window_of(const Computation& whole, std::size_t most, Index around = none);

}  // namespace cairn::causality
