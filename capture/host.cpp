#include "capture/host.h"

#include <sys/utsname.h>
#include <time.h>

#include <sstream>

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
    auto text = proc::read_file("/proc/cpuinfo");
    if (!text) return;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line) && !line.empty();) {
        const auto colon = line.find(": ");
        if (colon == std::string::npos) continue;
        if (line.starts_with("model name")) manifest.cpu_model = line.substr(colon + 2);
        if (!line.starts_with("flags")) continue;
        std::istringstream flags(line.substr(colon + 2));
        for (std::string flag; flags >> flag;) manifest.cpu_flags.push_back(flag);
    }
}

}  // namespace cairn::capture
