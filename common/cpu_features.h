// What programs can use of a CPU, as the CPU itself says.
#pragma once

#include <string>
#include <vector>

#include "common/cpu_level.h"

namespace cairn {

// Instructions and states that a program may use here, by the names that /proc/cpuinfo has for them. By
// cpuid(4) and not from that file: it also lists what only the kernel uses, and each kernel lists what it
// knows by name, so that the same CPU would seem to lack something after a restart on an older kernel. What
// needs the kernel's help (the state that AVX adds) is named where the kernel gives it.
[[nodiscard]] std::vector<std::string> cpu_features();

// Of `names` those that cpu_features() may give: no other is of any concern to programs.
[[nodiscard]] std::vector<std::string> known_cpu_features(const std::vector<std::string>& names);

// What a program may use that is kept to the level, by the same names. XSAVE is in all of them: without it no
// registers can be read by ptrace(2). Everything for CpuLevel::host.
[[nodiscard]] std::vector<std::string> features_of(CpuLevel level);

}  // namespace cairn
