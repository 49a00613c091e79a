#include "restart/passes/stay.h"

#include <sys/wait.h>

#include <utility>

#include "common/printable.h"
#include "restart/launched.h"
#include "restart/tell.h"
#include "restart/terminal/redraw.h"
#include "restart/verify.h"

namespace cairn::restart::pass {

Result<int> stay(const Options& options, const Computation& computation, Spaces spaces, Objects objects,
                 Meeting meeting, Running running) {
    {
        const Objects closed = std::move(objects);
        const Meeting left = std::move(meeting);
        spaces.regions.close_descriptors();
    }
    if (spaces.terminal.foreground()) draw_again(spaces.terminal_fd, std::move(running.foreground));
    spaces.terminal_fd.reset();
    if (options.verify)
        if (const auto begun = start_verifying(computation.directory, running.programs,
                                               static_cast<const char*>(spaces.regions.owners().path));
            !begun)
            tell("cairn: {}\n", printable(begun.error().what));
    const auto status =
        spaces.terminal.stay(running.first.number(), *running.deputy, [&](pid_t child, int how) {
            if (child == running.launcher) running.launcher = -1;
            if (running.pages) running.pages->ended(child, how);
        });
    // As a launcher: ends when all ranks have.
    if (running.launcher > 0) (void)::waitpid(running.launcher, nullptr, 0);
    if (!status) return status;
    running.pages.reset();
    running.deputy.reset();
    return end_as(*status);
}

}  // namespace cairn::restart::pass
