// Rights in a user namespace that is made for a restart, or by it, over the exec of a program in there.
#pragma once

#include "common/error.h"

namespace cairn::restart {

// What we may do in a user namespace that we have come into a process of ours may still do once it has
// executed a program: it chooses its threads' ids. The programs' own capabilities are set when they are
// complete.
[[nodiscard]] Result<> keep_capabilities();

}  // namespace cairn::restart
