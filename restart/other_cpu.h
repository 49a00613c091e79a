// Whether this machine's CPU can go on where another one has left off, and how registers are brought to it
// (docs/decisions/0019-cpu-levels.md).
#pragma once

#include <string>
#include <vector>

#include "common/cpu_state.h"
#include "common/error.h"
#include "common/schema/manifest.h"
#include "restart/computation.h"

namespace cairn::restart {

struct Cpu {
    std::vector<std::string> features;  // common/cpu_features.h
    std::vector<StateComponent> state;
};
[[nodiscard]] Cpu this_cpu();

// Has it what the programs may use? If `cairn launch --cpu` has kept all of them to a level, that is what the
// level has. What else is missing then, and only a program that asks the processor itself could use, is
// noted. Errors: ExitCode::refused, with the names of what is missing.
[[nodiscard]] Result<> judge_cpu(const schema::Manifest& manifest, const Cpu& here,
                                 std::vector<std::string>& notes);

// Brings the registers of all threads to the layout of this CPU. Errors: ExitCode::refused, by the thread's
// name, where registers are in use, or will be when a signal's handler returns, that this CPU hasn't got or
// keeps elsewhere.
[[nodiscard]] Result<> fit_registers(Computation& computation, const Cpu& here);

}  // namespace cairn::restart
