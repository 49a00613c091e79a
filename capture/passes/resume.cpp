// The pass that ends the pause: registers are put back, and all are let go.
#include <time.h>

#include "capture/passes/passes.h"
#include "common/wire/connections.h"

namespace cairn::capture {
namespace {

std::int64_t read_clock(clockid_t clock) {
    timespec now = {};
    ::clock_gettime(clock, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// As programs see them that are in no time namespace of the group's own.
Clocks clocks_of(const proc::ClockOffsets& given) {
    const auto ours = proc::clock_offsets("self");
    return {read_clock(CLOCK_REALTIME), read_clock(CLOCK_MONOTONIC) + given.monotonic - ours.monotonic,
            read_clock(CLOCK_BOOTTIME) + given.boottime - ours.boottime};
}

}  // namespace

Result<Clocks> pass::resume(const Setting& setting, Group& group, Members& members,
                            const FoundObjects& objects) {
    CHECK_OK(members.files->refuse_other_namespaces());
    members.files.reset();
    CHECK_OK(members.leave());
    for (auto& member : members.all) {
        if (!member.own_agent) CHECK_OK(member.agent->hold(setting.reporter));
        const auto asked_for = Clock::now() - member.timers_asked;
        CHECK_OK(collect_firings(*member.process, asked_for, setting.to_program, member.image));
    }
    // Last of all, with everybody still: what was left of a timer when it was read is added to this clock by
    // a restart that lets it go on, and no timer may fire early.
    const Clocks clocks = clocks_of(objects.table.given_clocks());
    // What one sends from here on must not be found by another who is still looking.
    if (setting.request.joint) CHECK_OK(error_of(setting.reporter.meet(wire::HostCaptured{})));
    setting.reporter.phase("resume");
    if (!setting.request.hold) group.stopped.let_go();
    setting.reporter.end_deadline();
    return clocks;
}

}  // namespace cairn::capture
