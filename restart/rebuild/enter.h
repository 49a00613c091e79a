// The restorer is placed into a process that has just executed its program, and set going.
#pragma once

#include "common/error.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// At the exec stop. From here on the process says by traps how far it is (advance.h).
[[nodiscard]] Result<> enter(Rebuilding& rebuilding, const Inherited& inherited);
// The same with an heir, at the trap behind its birth.
[[nodiscard]] Result<> enter_born(Rebuilding& rebuilding, const Inherited& inherited);

// Sets the restorer going at its entry `rebuild`, or `go` for the second half (restorer::Entries).
enum class RestorerEntry { rebuild, go };
[[nodiscard]] Result<> call_restorer(const Rebuilding& rebuilding, RestorerEntry entry);

}  // namespace cairn::restart
