// Who keeps a stop waiting, in words.
#include <ranges>
#include <set>

#include "capture/stop/stopping.h"
#include "common/human.h"
#include "common/region_mapping.h"

namespace cairn::capture {
namespace {

constexpr std::size_t most_named = 8;  // of thousands the rest would only hide them

std::string why_not_ready(const SessionRegions& regions, pid_t pid, pid_t parent) {
    if (parent != 0 && share_memory(pid, parent))
        return fmt::format("shares the memory of {} (clone with CLONE_VM), and can't be saved until it execs",
                           proc::label(parent));
    if (const auto ids = user_ids(pid); ids && regions.of(pid) == nullptr)
        return fmt::format(
            "has become user {} by a system call past libc (or while no coordinator lived), and what is "
            "said of it can't be believed; start it again",
            ids->effective);
    const auto mounts_of = [](const std::string& process) {
        return proc::read_link(fmt::format("/proc/{}/ns/mnt", process)).value_or("");
    };
    if (const auto its = mounts_of(std::to_string(pid)); !its.empty() && its != mounts_of("self"))
        return "has not registered: it is in a mount namespace of its own (a sandbox), and sees libcairn.so "
               "and the session's folder (CAIRN_RUNDIR), but doesn't open them";
    if (find_mapping(pid, {}).library)
        return "has not registered, though libcairn.so is in it: the session has lost it, and has to be "
               "begun anew";
    return "has not registered (no libcairn in it: a static program, or LD_PRELOAD was dropped)";
}

}  // namespace

std::string where_it_runs(const SeizedThreads& threads, pid_t pid) {
    std::string where;
    std::size_t moving = 0;
    for (const auto& thread : threads.of(pid)) {
        if (thread.still || ++moving > most_named) continue;
        auto stat = proc::stat(pid, thread.tid);
        auto channel = proc::read_file(fmt::format("/proc/{}/task/{}/wchan", pid, thread.tid));
        where += fmt::format("{}thread {} in state {}{}", where.empty() ? "" : ", ", thread.tid,
                             stat ? std::string(1, stat->state) : "?",
                             channel && *channel != "0" && !channel->empty() ? " in " + *channel : "");
        if (stat && stat->state == 'D')
            if (auto list = proc::children(pid); list && !list->empty())
                where += fmt::format(" (vfork? its child {} has not execed)", proc::label(list->back()));
    }
    if (moving > most_named)
        where += " and " + human_count(moving - most_named, "other thread", "other threads");
    return where;
}

std::string waiting_for(const Stopping& group) {
    std::set<pid_t> moving, unknown;
    for (const auto& thread : group.threads.all())
        if (!thread.still) moving.insert(thread.pid);
    for (const auto& [pid, tracked] : group.processes)
        if (tracked.stage == Stage::candidate) unknown.insert(pid);
    if (moving.empty() && unknown.empty()) return "a process whose parent died while it was born";
    std::vector<std::string> names;
    for (const pid_t pid : moving | std::views::take(most_named))
        names.push_back(fmt::format("{}: {}", proc::label(pid), where_it_runs(group.threads, pid)));
    for (const pid_t pid : unknown | std::views::take(most_named))
        names.push_back(fmt::format("{}: {}", proc::label(pid),
                                    why_not_ready(group.regions, pid, group.processes.at(pid).parent)));
    const auto others = moving.size() + unknown.size() - names.size();
    return fmt::format("waiting for {}{}", fmt::join(names, "; "),
                       others == 0 ? "" : "; and " + human_count(others, "other process", "other processes"));
}
}  // namespace cairn::capture
