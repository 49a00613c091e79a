// The process that stands in for MPI launchers (mpiexec) that were outside the group: it answers the ranks
// that they have started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::restart::pmi {

struct Rank {
    Fd connection;  // the launcher's end
    Fd process;     // pidfd
    std::string who;
    int number = 0, size = 0;
    bool waits = false;  // for an answer to a question from before the checkpoint
    // PMIx: the namespace, and which questions. PMI 1 doesn't say whose ranks they are: "". Of several jobs
    // of one size those of the one were born before those of the other with the same numbers.
    std::string job;
    std::vector<std::uint32_t> awaited;
    std::string born;
};

// Starts a process that answers until all connections have ended; a child of the caller's, in a session of
// its own. It holds nothing but the connections and standard error. If a rank fails the others of its job are
// killed.
[[nodiscard]] Result<pid_t> start_launcher(std::vector<Rank> ranks);

}  // namespace cairn::restart::pmi
