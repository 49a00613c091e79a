// The pass that stops the group: everybody stands still at its end, on the other hosts as well.
#include "capture/passes/passes.h"
#include "common/wire/connections.h"

namespace cairn::capture {

Result<Group> pass::stop(const Setting& setting, Ahead& ahead) {
    setting.reporter.phase("stop");
    ahead.outsiders.begin_stop();
    std::vector<pid_t> members = setting.request.members;
    members.insert(members.end(), ahead.outsiders.orphans().begin(), ahead.outsiders.orphans().end());
    Group group{TRY(
        stop_group(members, setting.regions, setting.reporter, ahead.outsiders, setting.request.capture))};
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
