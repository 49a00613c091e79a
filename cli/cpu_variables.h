// What keeps a launched program, and all that it executes, to a level of instructions.
#pragma once

#include "common/cpu_level.h"

namespace cairn::cli {

// Sets the variables by which libraries choose their instructions, and CAIRN_CPU, by which a checkpoint knows
// that this was done. A variable that holds a list is added to; of any other the value is replaced. Nothing
// for CpuLevel::host, but that CAIRN_CPU goes. False: no memory.
[[nodiscard]] bool keep_within(CpuLevel level);

}  // namespace cairn::cli
