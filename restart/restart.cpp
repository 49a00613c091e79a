// The passes of a restart, in their order. Each takes what the ones before it have made and adds its own;
// what has to be undone if a later one fails is undone by its owner's end (restart/undone.h).
#include "restart/restart.h"

#include <signal.h>

#include <utility>

#include "restart/notes.h"
#include "restart/own_ids.h"
#include "restart/passes/barrier.h"
#include "restart/passes/check.h"
#include "restart/passes/forest.h"
#include "restart/passes/go.h"
#include "restart/passes/join.h"
#include "restart/passes/open.h"
#include "restart/passes/plan.h"
#include "restart/passes/read.h"
#include "restart/passes/rebuild.h"
#include "restart/passes/spaces.h"
#include "restart/passes/stay.h"
#include "restart/terminal/deputy.h"

namespace cairn::restart {
namespace {

void prepare_signals() {
    ::signal(SIGPIPE, SIG_IGN);  // that nobody reads what we say is no reason to end
    // The restored foreground group has the terminal before its settings are put back.
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace

Result<int> restart(Options options) {
    const auto ignored = ignored_signals();
    prepare_signals();
    Notes notes(options.quiet, options.verbose);

    auto computation = TRY(pass::read(options, notes));
    if (const auto ended = TRY(enter_own_ids(options, computation)); ended) return *ended;
    const auto plan = TRY(pass::plan(computation, ignored));
    auto checked = TRY(pass::check(options, computation, notes));
    if (options.check_only) return 0;
    auto meeting = TRY(pass::join(options, computation));
    auto spaces = TRY(pass::spaces(options, computation, plan, meeting, checked.opening.floor));
    auto objects = TRY(pass::open(options, computation, std::move(checked), spaces, meeting, notes));
    auto forest = TRY(pass::forest(computation, plan, spaces, objects, notes));
    auto rebuilt = TRY(pass::rebuild(computation, plan, spaces, objects, meeting, std::move(forest)));
    auto ready = TRY(pass::barrier(computation, spaces, objects, meeting, std::move(rebuilt), notes));
    auto running =
        TRY(pass::go(options, computation, plan, objects, meeting, std::move(ready), ignored, notes));
    return pass::stay(options, computation, std::move(spaces), std::move(objects), std::move(meeting),
                      std::move(running));
}

}  // namespace cairn::restart
