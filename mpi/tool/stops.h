// How far each process of a whole job goes so that all stand at one cut: for those who replay it together.
#pragma once

#include <string>

#include "causality/cuts.h"
#include "common/error.h"

namespace cairn::mpi::tool {

// The trace in `folder`, as a job can be stopped. Every collective is taken as one that everybody waits for:
// the MPI may send its data by way of any member, so none can leave it with some of them standing still.
[[nodiscard]] Result<causality::Computation> trace_of_job(const std::string& folder, int ranks);

// What CAIRN_MPI_STOP and DIR/stopped/next.N say: for each process N events, and with + into the next one,
// which is a collective that others have left, so all have entered it.
[[nodiscard]] std::string stops_of(const causality::Computation& computation, const causality::Cut& cut);

}  // namespace cairn::mpi::tool
