// kill(2) comes back before the killed process has ended: one that has much memory takes seconds to give it
// back, and is a member of the session until then.
#pragma once

#include "common/client.h"
#include "common/error.h"

namespace cairn::restart {

// Where all processes of the session are on their way out, until the last has ended: a restart that follows a
// kill finds the session free then. Where one of them lives on, nothing: the coordinator says what that means
// for a restart. Says who is waited for after a second, unless `quiet`; ExitCode::timed_out after a minute.
[[nodiscard]] Result<> await_ending(CoordinatorClient& client, bool quiet);

}  // namespace cairn::restart
