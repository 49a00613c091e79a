// The pass that stops the group: everybody stands still at its end, on the other hosts as well.
#include <cerrno>
#include <chrono>
#include <thread>

#include "capture/passes/passes.h"
#include "common/wire/connections.h"

namespace cairn::capture {
namespace {

// A tracer whose tracee has just forked, executed or ended has to be asked again when it has dealt with that,
// which takes it microseconds: until then it is met in the midst of such a thing as often as not, and it runs
// for a moment only in between. What lasts is left to who tries again for longer (checkpoint.cpp).
Result<StoppedGroup> stop_in_a_good_moment(const Setting& setting, Ahead& ahead,
                                           const std::vector<pid_t>& members) {
    constexpr auto patience = std::chrono::milliseconds(500), moment = std::chrono::milliseconds(2);
    for (const auto until = Clock::now() + patience;;) {
        ahead.outsiders.begin_stop();
        auto stopped =
            stop_group(members, setting.regions, setting.reporter, ahead.outsiders, setting.request.capture);
        // ESRCH: somebody was killed while he was looked at.
        const bool passes = !stopped && (stopped.error().passing || stopped.error().number == ESRCH);
        if (!passes || Clock::now() > until || !setting.regions.has_capture(setting.request.capture))
            return stopped;
        std::this_thread::sleep_for(moment);
    }
}

}  // namespace

Result<Group> pass::stop(const Setting& setting, Ahead& ahead) {
    setting.reporter.phase("stop");
    std::vector<pid_t> members = setting.request.members;
    members.insert(members.end(), ahead.outsiders.orphans().begin(), ahead.outsiders.orphans().end());
    Group group{TRY(stop_in_a_good_moment(setting, ahead, members))};
    const auto& processes = group.stopped.processes();
    if (processes.empty()) return fail("no process is left to save");
    CHECK_OK(ahead.outsiders.judge_crowd(processes));
    if (ahead.participants) CHECK_OK(ahead.participants->check_still(group.stopped));
    group.np = static_cast<std::int32_t>(processes.size());
    if (!setting.request.joint) return group;
    group.np = TRY(setting.reporter.meet(wire::Stopped{.processes = group.np})).np;
    return group;
}

}  // namespace cairn::capture
