// The pass that stops the group: everybody stands still at its end, on the other hosts as well.
#include <nlohmann/json.hpp>

#include "capture/passes/passes.h"

namespace cairn::capture {

Result<Group> pass::stop(const Setting& setting, Ahead& ahead) {
    setting.reporter.phase("stop");
    ahead.outsiders.begin_stop();
    Group group{TRY(stop_group(setting.request.members, setting.regions, setting.reporter, ahead.outsiders))};
    const auto& processes = group.stopped.processes();
    if (processes.empty()) return fail("no process is left to save");
    CHECK_OK(ahead.outsiders.judge_crowd(processes));
    group.np = static_cast<std::int32_t>(processes.size());
    if (!setting.request.joint) return group;
    const auto all = TRY(setting.reporter.meet("stopped", {{"processes", group.np}}));
    group.np = all.value("np", group.np);
    return group;
}

}  // namespace cairn::capture
