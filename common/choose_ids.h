// May a process get the id here that somebody wants for it? Asked by the restart and by `cairn doctor`.
#pragma once

#include "common/error.h"

namespace cairn {

// Tries it (clone3(2) with set_tid), for neither a uid nor a capability tells: root of a user namespace may
// not in a pid namespace that isn't that one's, a container's root lacks CAP_CHECKPOINT_RESTORE or has a
// seccomp filter that hides the call. Makes two children, which end at once. For who has one thread.
[[nodiscard]] Result<> can_choose_ids();

}  // namespace cairn
