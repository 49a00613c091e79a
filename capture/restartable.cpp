#include "capture/restartable.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace cairn::capture {

std::string too_many_to_restart(const std::vector<schema::Process>& processes,
                                const schema::Objects& objects) {
    std::uint64_t highest = 255;  // restart/objects/set.cpp, lowest_floor()
    const schema::Process* whose = nullptr;
    for (const auto& process : processes)
        for (const auto& descriptor : process.descriptors) {
            if (descriptor.fd < 0 || static_cast<std::uint64_t>(descriptor.fd) <= highest) continue;
            highest = static_cast<std::uint64_t>(descriptor.fd);
            whose = &process;
        }
    constexpr std::uint64_t own = 16;  // the tool's: region, image, terminal, connections
    const std::uint64_t needed = highest + 1 + objects.objects.size() + own;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= needed) return {};
    return fmt::format(
        "a restart needs {} descriptors at once ({}{} open files), and {} are allowed here: start it under a "
        "higher hard limit (ulimit -Hn)",
        needed,
        whose != nullptr ? fmt::format("process {} ({}) has descriptor {}, and there are ", whose->pid,
                                       whose->name, highest)
                         : std::string(),
        objects.objects.size(), limit.rlim_max);
}

}  // namespace cairn::capture
