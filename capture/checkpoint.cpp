// The passes of a checkpoint one after another, and again where something was in the way that passes.
#include "capture/checkpoint.h"

#include <algorithm>
#include <thread>

#include "capture/await_pages.h"
#include "capture/killed.h"
#include "capture/passes/passes.h"
#include "capture/passes/watch.h"
#include "common/wire/events.h"

namespace cairn::capture {
namespace {

// How long to wait for what passes, and how long the programs run in between.
constexpr auto passing_patience = std::chrono::seconds(3);
constexpr auto longest_nap = std::chrono::milliseconds(50);

}  // namespace

Result<> checkpoint(const Request& request, SessionRegions& regions, Reporter& reporter,
                    const Finished& finished) {
    const Setting setting{request, regions, reporter,
                          [&regions](KernelId id) { return regions.to_program(id); }};
    CHECK_OK(await_pages(request.pages, reporter));
    auto ahead = TRY(pass::look_ahead(setting));

    pid_t killed = 0;
    // Each value undoes when it goes what its pass has done to the programs: they go on whichever pass fails.
    const auto try_once = [&]() -> Result<> {
        const auto begin = Clock::now();
        auto group = TRY(pass::stop(setting, ahead));
        LookForKilled look(group.stopped, killed);
        auto members = TRY(pass::collect(setting, ahead, group));
        auto objects = TRY(pass::objects(setting, ahead, group, members));
        auto drafts = TRY(pass::fork(setting, ahead, members, objects));
        const auto clocks = TRY(pass::resume(setting, group, members, objects));
        look.leave_off();
        const auto resumed = Clock::now();
        ahead.participants->go_on();
        auto manifest = pass::write(setting, ahead, group, members, objects, drafts, clocks);
        if (!manifest) {
            manifest.error().passing = false;  // the programs have gone on: there is no second look at them
            return std::unexpected(std::move(manifest.error()));
        }
        manifest->pause_ns = std::chrono::nanoseconds(resumed - begin).count();
        manifest->total_ns = std::chrono::nanoseconds(Clock::now() - begin).count();
        finished(*manifest, marks_to_keep(setting, ahead, drafts));
        return {};
    };

    const auto attempt = [&] {
        killed = 0;
        auto done = try_once();
        if (killed != 0 && done.error().code == ExitCode::failed) done.error() = killed_meanwhile(killed);
        return done;
    };
    const auto patience = ahead.began + passing_patience;
    auto done = attempt();
    // What is there for a moment only, and can't be saved: the programs go on until it is over. Where
    // somebody could not be brought back from an attempt, the capture's number is taken back already
    // (~Members).
    for (auto nap = std::chrono::milliseconds(1);
         !request.joint && !done && done.error().passing && regions.has_capture(request.capture) &&
         Clock::now() < patience;
         nap = std::min(2 * nap, longest_nap)) {
        reporter.notes().clear();
        reporter.phase(wire::phase_again, {done.error().what});
        std::this_thread::sleep_for(nap);
        ahead.again = true;
        done = attempt();
    }
    if (!done) regions.set_capture(0);
    return done;
}

}  // namespace cairn::capture
