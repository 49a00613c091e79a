// All that the rest of a restart knows of MPI: launchers (mpiexec) that were outside the group are gone, and
// somebody has to answer the ranks that they have started. Which protocol a rank speaks is this folder's
// affair.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/schema/process.h"
#include "resources/restore/objects.h"
#include "resources/schema/object.h"

namespace cairn::restart::pmi {

// Starts a process that answers the ranks among `processes` until all have ended (launcher.h), and returns
// its id; it is a child of the caller's. -1: there are no ranks. Takes the launchers' ends of the connections
// out of `set`. Notes say where only some ranks of a job are here.
[[nodiscard]] Result<pid_t> stand_in_for_launchers(const schema::Objects& objects,
                                                   std::span<const schema::Process> processes, ObjectSet& set,
                                                   const ToKernel& to_kernel,
                                                   std::vector<std::string>& notes);

}  // namespace cairn::restart::pmi
