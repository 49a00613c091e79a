// A pid namespace of the computation's own: every process has the id there that it had, whatever the machine
// has given to others. For programs that make system calls past libcairn.so, and so see the kernel's ids
// (docs/decisions/0026-without-libc.md).
#pragma once

#include <optional>

#include "common/error.h"
#include "restart/computation.h"
#include "restart/options.h"

namespace cairn::restart {

// Where a program of the computation needs the ids that it had, and can't have them where we are: goes into
// namespaces of our own (user, unless we are root; pid; mount, for its /proc) and comes back in the process
// there that goes on with the restart, with `options.ids` exact. In the process that has stayed outside it
// returns when the restart has ended, with its exit code. Nothing has been started yet that would be left
// behind.
[[nodiscard]] Result<std::optional<int>> enter_own_ids(Options& options, const Computation& computation);

}  // namespace cairn::restart
