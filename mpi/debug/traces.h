// The trace of a record, which says who has sent what to whom: made by running each rank alone once, and kept
// in DIR/debug for the next time.
#pragma once

#include <string>

#include "causality/computation.h"
#include "mpi/record/format.h"
#include "mpi/tool/launch.h"

namespace cairn::mpi::debug {

// `launch` of a rank, without its variables. `notes` gets a line for each rank that doesn't come to its end.
// Code refused: a rank doesn't begin.
[[nodiscard]] Result<causality::Computation> trace_of(const std::string& folder, const Identity& identity,
                                                      const tool::Launch& launch, std::string& notes);

// The same of a record with --checkpoints, whose trace is there: nobody runs. The job may still do so.
[[nodiscard]] Result<causality::Computation> recorded_trace_of(const std::string& folder, int ranks);

// What tells this record from every other one, and from itself when it was shorter.
[[nodiscard]] Result<std::string> mark_of(const std::string& folder, int ranks);

// Where a rank's Open MPI may make folders; `alone` gives each rank one of its own below it.
inline constexpr const char* openmpi_folder = "OMPI_MCA_orte_tmpdir_base";
// What a rank that runs alone is started with.
[[nodiscard]] tool::Launch alone(const tool::Launch& launch, int rank);

}  // namespace cairn::mpi::debug
