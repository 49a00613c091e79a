#include "restart/passes/stay.h"

#include <sys/wait.h>

#include <utility>

#include "restart/launched.h"
#include "restart/terminal/redraw.h"

namespace cairn::restart::pass {

Result<int> stay(Spaces spaces, Objects objects, Meeting meeting, Running running) {
    {
        const Objects closed = std::move(objects);
        const Meeting left = std::move(meeting);
        spaces.regions.close_descriptors();
    }
    if (spaces.terminal.foreground()) draw_again(spaces.terminal_fd, std::move(running.foreground));
    spaces.terminal_fd.reset();
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
