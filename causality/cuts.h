// Cuts: for each process, how many of its events are before the cut. A cut is consistent if with an event all
// its causes are before it. Consistent cuts are a lattice: join and meet are maximum and minimum by process.
#pragma once

#include <functional>
#include <vector>

#include "causality/order.h"

namespace cairn::causality {

using Cut = std::vector<Position>;

[[nodiscard]] Cut join(const Cut& a, const Cut& b);
[[nodiscard]] Cut meet(const Cut& a, const Cut& b);
[[nodiscard]] bool within(const Cut& a, const Cut& b);  // a is part of b

// O(n) queries of the clock table. `clocks` counts events; the cut is one of its computation.
[[nodiscard]] bool consistent(const Computation& computation, const ClockTable& clocks, const Cut& cut);

// The smallest consistent cut with this event before it: its causal past and itself.
[[nodiscard]] Cut earliest_after(const Computation& computation, const ClockTable& clocks, Index event);

// The largest consistent cut without this event: all but it and its causal future. O(n log E) queries.
[[nodiscard]] Cut latest_before(const Computation& computation, const ClockTable& clocks, Index event);

// Calls `visit` for each consistent cut, smaller ones first, until there are no more, or it says false. Each
// is reached from a smaller one by one event; O(n) queries for each, and memory for those of two sizes at a
// time.
void for_each_consistent_cut(const Computation& computation, const ClockTable& clocks,
                             const std::function<bool(const Cut&)>& visit);

}  // namespace cairn::causality
