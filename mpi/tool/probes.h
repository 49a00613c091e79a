// Probes as causes: a probe that has found a message happened after the send of this message, though none was
// received yet.
#pragma once

#include "causality/cuts.h"

namespace cairn::mpi::tool {

// The earliest consistent cut that has all of this one and what its probes have found, which happened before
// as well but isn't an order that messages make.
[[nodiscard]] causality::Cut with_probes(const causality::Computation& computation,
                                         const causality::ClockTable& clocks, causality::Cut cut);

}  // namespace cairn::mpi::tool
