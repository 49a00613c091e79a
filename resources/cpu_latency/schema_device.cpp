#include "resources/cpu_latency/schema_device.h"

#include <sys/sysmacros.h>

#include <sstream>
#include <string>

#include "common/proc.h"

namespace cairn {

bool is_cpu_latency_device(const struct stat& status) {
    constexpr unsigned misc_devices = 10;  // MISC_MAJOR
    if (!S_ISCHR(status.st_mode) || major(status.st_rdev) != misc_devices) return false;
    // "259 cpu_dma_latency"
    std::istringstream devices(proc::read_file("/proc/misc").value_or(""));
    std::string name;
    for (unsigned number = 0; devices >> number >> name;)
        if (name == "cpu_dma_latency") return number == minor(status.st_rdev);
    return false;
}

}  // namespace cairn
