#include "capture/host.h"

#include <sys/utsname.h>
#include <time.h>

#include <fstream>

#include "common/cpu_features.h"
#include "common/cpu_state.h"
#include "common/proc.h"
#include "common/uid.h"

namespace cairn::capture {
namespace {

std::int64_t now(clockid_t clock) {
    timespec time = {};
    ::clock_gettime(clock, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

void describe_host(schema::Manifest& manifest) {
    manifest.host = host_name();
    manifest.taken_at_ns = now(CLOCK_REALTIME);
    manifest.monotonic_ns = now(CLOCK_MONOTONIC);
    manifest.boottime_ns = now(CLOCK_BOOTTIME);
    utsname system = {};
    ::uname(&system);
    manifest.kernel = system.release;
    if (auto id = proc::read_file("/proc/sys/kernel/random/boot_id")) manifest.boot_id = id->substr(0, 36);
    manifest.cpu_flags = cpu_features();
    manifest.cpu_state = cpu_state_layout();
    // No further than the first processor's lines: there may be hundreds.
    std::ifstream lines("/proc/cpuinfo");
    for (std::string line; std::getline(lines, line) && !line.empty();)
        if (const auto colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
            manifest.cpu_model = line.substr(colon + 2);
}

}  // namespace cairn::capture
