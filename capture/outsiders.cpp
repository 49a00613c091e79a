// Refuses or leaves out who belongs to the group and has not registered.
#include "capture/outsiders.h"

#include <set>

#include "common/region_ops.h"

namespace cairn::capture {
namespace {

Strangers::Known known_to(const SessionRegions& regions, const std::set<pid_t>& asked_for, pid_t pid) {
    const SessionRegion* region = regions.of(pid);
    const auto index = region == nullptr ? no_slot : find_slot(*region->region, KernelId(pid));
    if (index != no_slot)
        return region->region->slots[index].foreign[0] != 0 ? Strangers::Known::outside
                                                            : Strangers::Known::member;
    return asked_for.contains(pid) ? Strangers::Known::member : Strangers::Known::no;
}

Result<> refuse_strangers(const std::vector<Strangers::Stranger>& strangers) {
    return fail_code(
        ExitCode::refused,
        "this would not be the whole computation: not registered, and so not to be saved: {}; end "
        "them, start them so that they load libcairn.so, or leave them out by --without-strangers",
        describe_strangers(strangers));
}

}  // namespace

Outsiders::Outsiders(const Request& request, const SessionRegions& regions)
    : regions_(&regions),
      without_strangers_(request.without_strangers),
      strangers_(
          regions.owners().path, !request.without_strangers,
          [&regions, asked_for = std::set<pid_t>(request.members.begin(), request.members.end())](pid_t pid) {
              return known_to(regions, asked_for, pid);
          },
          [&regions](const std::vector<pid_t>& pids) { return without_place(regions, pids); },
          [&regions](pid_t pid) { return regions.has_user_of(pid); }) {}

Result<> Outsiders::look() {
    return judge(strangers_.look());
}

Result<> Outsiders::judge(const std::vector<Strangers::Stranger>& strangers) {
    if (strangers.empty()) return {};
    if (!without_strangers_) return refuse_strangers(strangers);
    for (const auto& each : strangers)
        notes_.push_back(
            fmt::format("{} is left out (--without-strangers): {}", proc::label(each.pid), each.why));
    strangers_.leave_out(strangers);
    return {};
}

std::vector<pid_t> Outsiders::come_since() {
    std::vector<pid_t> pids;
    for (const auto& each : strangers_.look_at_new()) {
        come_.insert_or_assign(each.pid, each);
        pids.push_back(each.pid);
    }
    return pids;
}

// Born while we began, it may be about to register; who isn't, isn't for good. A machine that is busy may
// leave it for seconds where it is: forked, in an execve, in its exit.
Result<bool> Outsiders::leave_out(pid_t pid) {
    if (left_out(pid)) return true;
    auto& since = waiting_since_.try_emplace(pid, Clock::now()).first->second;
    if (Clock::now() - since < std::chrono::milliseconds(500)) return false;
    // Who has not execed has its parent's memory, the library included: where that comes from an image
    // page by page, or the machine is busy, it takes its time.
    const auto stat = proc::stat(pid);
    if (!stat || has_only_forked(*stat) || expects_library(pid) != LibraryExpected::no) {
        since = Clock::now();
        return false;
    }
    const auto found = come_.find(pid);
    Strangers::Stranger stranger = {pid, 0, "a child of a member that doesn't load libcairn.so"};
    if (found != come_.end()) stranger = found->second;
    CHECK_OK(judge({stranger}));
    return true;
}

// Born since we have looked, without a slot: saved for that they have their parents' memory, but a restart
// would have no place for them.
Result<> Outsiders::judge_crowd(const std::map<pid_t, StoppedProcess>& stopped) const {
    std::vector<pid_t> unregistered;
    for (const auto& [pid, process] : stopped)
        if (!process.registered) unregistered.push_back(pid);
    std::vector<Strangers::Stranger> crowd;
    for (const pid_t pid : without_place(*regions_, unregistered))
        crowd.push_back({pid, 0, std::string(no_place)});
    return crowd.empty() ? Result<>() : refuse_strangers(crowd);
}

}  // namespace cairn::capture
