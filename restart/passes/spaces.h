// Pass 5 of a restart: where the programs are to live: their ids, their clocks, their terminal.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/proc.h"
#include "resources/restore/objects.h"
#include "restart/computation.h"
#include "restart/meeting.h"
#include "restart/options.h"
#include "restart/passes/plan.h"
#include "restart/regions.h"
#include "restart/terminal/outer.h"

namespace cairn::restart::pass {

struct Spaces {
    Regions regions;
    // Every process gets the id that it had; else any, and the session's map of virtual ids tells which.
    bool exact_ids = false;
    std::set<KernelId> avoid;         // exact: ids that nobody else may take meanwhile
    ToKernel to_kernel;               // an id as the programs know it -> the kernel's, once it is made
    std::vector<std::string> hosts;   // addresses that the computation's hosts have now
    proc::ClockOffsets own_clocks{};  // of the tool
    std::int64_t clock_shift = 0;     // CLOCK_MONOTONIC of the programs is ahead of the tool's by so much, ns
    OuterTerminal terminal;           // the one that the restart was started from, or one with a relay
    Fd terminal_fd;                   // its descriptor for the programs, at or above the floor; may be none
};

// `floor`: of the restart's own descriptors (ObjectSetOptions::floor).
[[nodiscard]] Result<Spaces> spaces(const Options& options, const Computation& computation, const Plan& plan,
                                    const Meeting& meeting, int floor);

}  // namespace cairn::restart::pass
