// What a thread goes on with.
#pragma once

#include <cstddef>

#include "common/error.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// Registers and signal mask of the thread with this index; calls that were interrupted are made again, with
// what was left of their timeouts.
[[nodiscard]] Result<> set_thread(const Rebuilding& rebuilding, std::size_t index);

}  // namespace cairn::restart
