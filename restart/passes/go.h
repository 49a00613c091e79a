// Pass 10 of a restart: registers, masks, pending signals and timers are set, and the programs run.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/error.h"
#include "restart/computation.h"
#include "restart/meeting.h"
#include "restart/notes.h"
#include "restart/options.h"
#include "restart/pages/service.h"
#include "restart/passes/barrier.h"
#include "restart/passes/open.h"
#include "restart/passes/plan.h"
#include "restart/terminal/deputy.h"

namespace cairn::restart::pass {

// The programs run, and the tool is in the place of who had launched them.
struct Running {
    KernelId first;                         // whose end is the restart's (first_process())
    std::unique_ptr<Deputy> deputy;         // hands on what is sent to the tool
    std::unique_ptr<pages::Service> pages;  // null: all memory is there
    pid_t launcher = -1;                    // Ready::launcher
    std::vector<pid_t> foreground;          // the kernel's ids of the terminal's foreground group
    std::vector<pid_t> programs;            // and of all
};

// `ignored`: as for plan().
[[nodiscard]] Result<Running> go(const Options& options, const Computation& computation, const Plan& plan,
                                 Objects& objects, Meeting& meeting, Ready ready, std::uint64_t ignored,
                                 Notes& notes);

}  // namespace cairn::restart::pass
