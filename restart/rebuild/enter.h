// The restorer is placed into a process that has just executed its program, and set going.
#pragma once

#include "common/error.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// At the exec stop, or with an heir at the trap behind its birth: a place for the restorer is chosen, and the
// process maps memory there. It traps when it has.
[[nodiscard]] Result<> enter(Rebuilding& rebuilding, const Inherited& inherited);
// At that trap: the restorer is put there and set going. From here on the process says by traps how far it is
// (advance.h).
[[nodiscard]] Result<> place_restorer(Rebuilding& rebuilding);

// Sets the restorer going for its second half.
[[nodiscard]] Result<> let_restorer_go(const Rebuilding& rebuilding);

}  // namespace cairn::restart
