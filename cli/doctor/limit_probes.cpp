// What a process, a user, a group of processes or the machine may have at most.
#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "cli/doctor/look.h"
#include "cli/doctor/probe.h"
#include "common/human.h"
#include "common/own_process.h"
#include "common/room_left.h"

namespace cairn::doctor {
namespace {

std::string hard_limit(__rlimit_resource resource, bool bytes) {
    rlimit now{};
    ::getrlimit(resource, &now);
    if (now.rlim_max == RLIM_INFINITY) return "unlimited";
    return bytes ? human_bytes(now.rlim_max) : std::to_string(now.rlim_max);
}

// Tried, for root of a user namespace has the capability for it and may not. Each probe is a process of its
// own.
bool may_raise(rlimit files) {
    ++files.rlim_max;
    return ::setrlimit(RLIMIT_NOFILE, &files) == 0;
}

Observation hard_limits(const Setting&) {
    auto seen =
        worked(fmt::format("open files {}, files up to {}, memory {}", hard_limit(RLIMIT_NOFILE, false),
                           hard_limit(RLIMIT_FSIZE, true), hard_limit(RLIMIT_AS, true)));
    std::string low;
    for (const auto& each : low_limits()) low += (low.empty() ? "" : ", ") + each;
    if (!low.empty()) seen.facts["low"] = low;
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && !may_raise(files))
        seen.facts["files"] = std::to_string(std::min<rlim_t>(files.rlim_max, 1 << 30));
    return seen;
}

void refine_hard_limits(Line& line, const Observation& seen, const Setting&) {
    const auto low = seen.fact("low");
    if (low.empty()) return;
    line.state = State::note;
    line.found = low;
    line.meaning = "checkpoints of larger programs may fail; small ones work";
    // A restart's own descriptors are above 255, some 60 for the smallest program (lowest_floor in
    // resources/schema/descriptor_room.cpp).
    constexpr long least_files = 320;
    if (!seen.fact("files").empty() && seen.number("files") < least_files) {
        line.state = State::missing;
        line.needed = true;
        line.meaning = fmt::format("a restart needs {} open files, even of a small program", least_files);
    }
    line.remedy =
        "as root: raise it in /etc/security/limits.conf (a service: Limit... in its unit, a job: its "
        "scheduler)";
}

Observation locked_memory(const Setting&) {
    auto seen = worked(hard_limit(RLIMIT_MEMLOCK, true));
    if (seen.said == "0 B") seen.facts["none"] = "1";
    return seen;
}

void refine_locked(Line& line, const Observation& seen, const Setting& setting) {
    if (seen.fact("none") != "1" || setting.root) return;
    line.state = State::note;
    line.meaning = "programs that lock memory can't be brought back";
    line.remedy = "as root: raise memlock in /etc/security/limits.conf";
}

// What RLIMIT_NPROC counts: threads of this user.
long tasks_of(uid_t user) {
    long count = 0;
    DIR* all = ::opendir("/proc");
    if (all == nullptr) return 0;
    while (const dirent* entry = ::readdir(all)) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
        struct stat process {
        }, threads{};
        const std::string path = std::string("/proc/") + entry->d_name;
        if (::stat(path.c_str(), &process) != 0 || process.st_uid != user) continue;
        // A folder has two links and one for each folder in it.
        if (::stat((path + "/task").c_str(), &threads) == 0)
            count += std::max<long>(1, static_cast<long>(threads.st_nlink) - 2);
    }
    ::closedir(all);
    return count;
}

Observation processes(const Setting& setting) {
    const std::int64_t highest = std::strtoll(first_line("/proc/sys/kernel/pid_max").c_str(), nullptr, 10);
    std::int64_t room = highest > 0 ? highest : no_limit;
    auto seen = worked();
    rlimit now{};
    if (!setting.root && ::getrlimit(RLIMIT_NPROC, &now) == 0 && now.rlim_max != RLIM_INFINITY) {
        const auto left = static_cast<std::int64_t>(now.rlim_max) - tasks_of(setting.user);
        if (left < room) seen.facts["whose"] = "ulimit -u", room = left;
    }
    const auto group = room_in_groups("pids", "pids.max", "pids.current", "pids.max", "pids.current");
    if (group.left < room) seen.facts["whose"] = "the cgroup's pids.max", room = group.left;
    room = std::max<std::int64_t>(room, 0);
    seen.said = room == no_limit ? "no limit" : fmt::format("room for {} more", room);
    seen.facts["room"] = std::to_string(room);
    return seen;
}

void refine_processes(Line& line, const Observation& seen, const Setting&) {
    constexpr long few = 100;
    if (!seen.worked() || seen.number("room") >= few) return;
    line.state = State::note;
    if (const auto whose = seen.fact("whose"); !whose.empty()) line.found += fmt::format(" ({})", whose);
    line.meaning = "a checkpoint makes a copy of each process: programs of many processes can't be saved";
    line.remedy =
        "end what isn't needed, or have the limit raised (limits.conf, the scheduler's or container's limit)";
}

Observation memory(const Setting&) {
    const auto machine = available_memory();
    const auto group = memory_in_groups();
    const bool limited = group.left < no_limit;
    const auto left = std::max<std::int64_t>(0, std::min(machine, group.left));
    auto seen = worked(left == no_limit ? "it isn't told how much there is"
                                        : human_bytes(static_cast<std::uint64_t>(left)) + " available");
    if (limited)
        seen.said +=
            fmt::format(", the cgroup's limit is {}", human_bytes(static_cast<std::uint64_t>(group.most)));
    const auto swap = room_in_groups("memory", "memory.swap.max", "memory.swap.current", "", "");
    if (swap.left < no_limit)
        seen.said += swap.most == 0
                         ? ", it has no swap"
                         : fmt::format(", {} of swap", human_bytes(static_cast<std::uint64_t>(swap.left)));
    seen.facts = {{"left", std::to_string(left)}, {"limited", limited ? "1" : "0"}};
    return seen;
}

void refine_memory(Line& line, const Observation& seen, const Setting&) {
    constexpr long little = 256L << 20;
    if (!seen.worked() || seen.number("left") >= little) return;
    line.state = State::note;
    line.meaning =
        "what programs write to while a checkpoint is written is there twice for that time: they may be "
        "killed";
    line.remedy = seen.fact("limited") == "1"
                      ? "a higher limit for the job, the container or the service (memory.max)"
                      : "end what isn't needed, or add swap";
}

Observation overcommit(const Setting&) {
    const auto value = first_line("/proc/sys/vm/overcommit_memory");
    auto seen = worked(value == "2" ? "strict (vm.overcommit_memory is 2)"
                                    : "memory may be promised that isn't there");
    seen.facts["value"] = value;
    return seen;
}

void refine_overcommit(Line& line, const Observation& seen, const Setting&) {
    if (seen.fact("value") != "2") return;
    line.state = State::note;
    line.meaning =
        "a checkpoint's copies of processes count in full: programs larger than half of the limit can't be "
        "saved";
    line.remedy = "as root: sysctl vm.overcommit_memory=0, or more swap";
}

constexpr std::array limits{
    Probe{Group::limits, "ulimits", hard_limits, State::note, false, "", "", refine_hard_limits},
    Probe{Group::limits, "processes", processes, State::note, false, "", "", refine_processes},
    Probe{Group::limits, "locked_memory", locked_memory, State::note, false, "", "", refine_locked},
    Probe{Group::limits, "memory", memory, State::note, false, "", "", refine_memory},
    Probe{Group::limits, "overcommit", overcommit, State::note, false, "", "", refine_overcommit},
};

}  // namespace

std::span<const Probe> limit_probes() {
    return limits;
}

}  // namespace cairn::doctor
