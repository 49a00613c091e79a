// Shared memory is copied while the programs run: the end of the pass look_ahead. The pass objects brings the
// copy up to the moment, while all stand still.
#pragma once

#include "capture/passes/passes.h"

namespace cairn::capture {

[[nodiscard]] Result<> copy_memory(const Setting& setting, Ahead& ahead);

}  // namespace cairn::capture
