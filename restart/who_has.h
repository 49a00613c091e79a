// Who is in the way of an id that a restart wants.
#pragma once

#include <string>

#include "common/ids.h"

namespace cairn::restart {

// "pid 7 is taken by process 7 (sleep)", in words for the user. An id is in use as long as a process or
// thread, a group or a session has it; zombies count.
[[nodiscard]] std::string who_has(KernelId id);

}  // namespace cairn::restart
