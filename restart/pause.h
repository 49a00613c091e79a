// `cairn restart --pause`: the programs are complete, and stand still before their first instruction, as if
// by SIGSTOP, so that a debugger can be attached to any of them.
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/schema/process.h"
#include "restart/notes.h"
#include "restart/rebuild/rebuilding.h"
#include "restart/terminal/deputy.h"

namespace cairn::restart {

// Lets all of them go into a stop.
[[nodiscard]] Result<> stand_still(const std::vector<const Rebuilding*>& running);

// Says how to go on, and waits for this: SIGCONT to this process. Any other signal that is meant for the
// programs lets them go on, too, and waits then for whoever hands signals on; so does the end of all of them.
// `running`: children before their parents, and so do they go on: a shell that waits for stopped children
// never sees one.
void wait_paused(const std::vector<const Rebuilding*>& running, const Notes& notes);

}  // namespace cairn::restart
