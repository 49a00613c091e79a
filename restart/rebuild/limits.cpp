#include "restart/rebuild/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace cairn::restart {
namespace {

constexpr std::array names = {"RLIMIT_CPU",      "RLIMIT_FSIZE", "RLIMIT_DATA",   "RLIMIT_STACK",
                              "RLIMIT_CORE",     "RLIMIT_RSS",   "RLIMIT_NPROC",  "RLIMIT_NOFILE",
                              "RLIMIT_MEMLOCK",  "RLIMIT_AS",    "RLIMIT_LOCKS",  "RLIMIT_SIGPENDING",
                              "RLIMIT_MSGQUEUE", "RLIMIT_NICE",  "RLIMIT_RTPRIO", "RLIMIT_RTTIME"};

std::string name_of_limit(std::size_t resource) {
    return resource < names.size() ? names[resource] : fmt::format("limit {}", resource);
}

std::string in_words(std::uint64_t value) {
    return value == RLIM64_INFINITY ? "unlimited" : fmt::format("{}", value);
}

// The execution of a set-id program lowers the limit of its stack (begin_new_exec(), fs/exec.c).
bool is_inherited(std::size_t resource, const rlimit64& wanted, std::span<const rlimit64> inherited) {
    return resource != RLIMIT_STACK && resource < inherited.size() &&
           inherited[resource].rlim_cur == wanted.rlim_cur && inherited[resource].rlim_max == wanted.rlim_max;
}

}  // namespace

void set_limits(const schema::Process& process, std::span<const rlimit64> inherited, const LimitCall& call,
                std::vector<std::string>& notes) {
    for (std::size_t resource = 0; resource < process.limits.size(); ++resource) {
        const auto number = static_cast<unsigned>(resource);
        const rlimit64 wanted = {process.limits[resource].soft, process.limits[resource].hard};
        if (is_inherited(resource, wanted, inherited)) continue;
        const int problem = call(number, &wanted, nullptr);
        if (problem == 0) continue;
        // What is allowed here has to be asked for: a call that fails says nothing of it.
        rlimit64 now = {};
        rlimit64 lower = {};
        int second = call(number, nullptr, &now);
        if (second == 0) {
            lower.rlim_max = std::min<std::uint64_t>(wanted.rlim_max, now.rlim_max);
            lower.rlim_cur = std::min<std::uint64_t>(wanted.rlim_cur, lower.rlim_max);
            second = call(number, &lower, nullptr);
        }
        if (second == 0)
            notes.push_back(
                fmt::format("process {} ({}): {} was {} (hard {}), and is {} (hard {}) now, as high as it "
                            "may be set here",
                            process.pid, process.name, name_of_limit(resource), in_words(wanted.rlim_cur),
                            in_words(wanted.rlim_max), in_words(lower.rlim_cur), in_words(lower.rlim_max)));
        else
            notes.push_back(fmt::format("process {} ({}): {} was {} (hard {}), and can't be set: {}",
                                        process.pid, process.name, name_of_limit(resource),
                                        in_words(wanted.rlim_cur), in_words(wanted.rlim_max),
                                        std::strerror(second)));
    }
}

}  // namespace cairn::restart
