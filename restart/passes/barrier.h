// Pass 9 of a restart: the session takes the processes as its members, and all parts wait until everybody is
// complete: nobody runs before all do.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "common/error.h"
#include "restart/computation.h"
#include "restart/meeting.h"
#include "restart/notes.h"
#include "restart/passes/open.h"
#include "restart/passes/rebuild.h"
#include "restart/passes/spaces.h"
#include "restart/slots.h"
#include "restart/undone.h"

namespace cairn::restart::pass {

struct Ready {
    Undone<Slots, &Slots::release> slots;
    Rebuilt rebuilt;
    pid_t launcher = -1;  // answers MPI ranks (restart/pmi/launchers.h); a child of the tool, -1: none
};

[[nodiscard]] Result<Ready> barrier(const Computation& computation, const Spaces& spaces, Objects& objects,
                                    Meeting& meeting, Rebuilt rebuilt, Notes& notes);

}  // namespace cairn::restart::pass
