// How /dev/cpu_dma_latency is known, by a capture and by a restart.
#pragma once

#include <sys/stat.h>

namespace cairn {

// By its number, 10:N, and not by a path: a folder of devices may be elsewhere, or of another kernel. N is
// given when the kernel boots (MISC_DYNAMIC_MINOR; kernel/power/qos.c), and /proc/misc tells it, also to who
// has no /sys. False where the kernel has no such device (without CONFIG_CPU_IDLE).
[[nodiscard]] bool is_cpu_latency_device(const struct stat& status);

// What read(2) tells where nobody has asked for anything; to write it takes a request back
// (PM_QOS_CPU_LATENCY_DEFAULT_VALUE of include/linux/pm_qos.h, in microseconds).
inline constexpr int no_cpu_latency_request = 2'000'000'000;

}  // namespace cairn
