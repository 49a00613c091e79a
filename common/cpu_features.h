// What programs can use of a CPU, as the CPU itself says.
#pragma once

#include <string>
#include <vector>

namespace cairn {

// Instructions and states that a program may use here, by the names that /proc/cpuinfo has for them. By
// cpuid(4) and not from that file: it also lists what only the kernel uses, and each kernel lists what it
// knows by name, so that the same CPU would seem to lack something after a restart on an older kernel. What
// needs the kernel's help (the state that AVX adds) is named where the kernel gives it.
[[nodiscard]] std::vector<std::string> cpu_features();

// Of `wanted`, what this CPU lacks. Names that cpu_features() never gives are of no concern to programs.
[[nodiscard]] std::vector<std::string> missing_cpu_features(const std::vector<std::string>& wanted);

}  // namespace cairn
