// The last of a restart, in each process once all are complete: timers and pending signals, limits, the
// registers of every thread, and then it runs.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/ptrace/remote_call.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// The restorer's second half: timers and pending signals. Of many processes it is begun in all before any is
// waited for (microseconds each).
[[nodiscard]] Result<> begin_to_go(const Rebuilding& rebuilding);
[[nodiscard]] Result<> await_prepared(const Rebuilding& rebuilding);

// What is set from outside, and so late because it could be in the way before: limits, oom_score_adj. Notes
// what this user may not set.
void set_limits(const Rebuilding& rebuilding, std::vector<std::string>& notes);

// Filters, registers and masks of every thread but the main one, which begins to unmap the
// restorer. Of many processes that is begun in all before any is waited for.
[[nodiscard]] Result<ptrace::RemoteCall> set_other_threads(const Rebuilding& rebuilding);
// Waits for that; the main thread has its registers and its mask.
[[nodiscard]] Result<> set_main_thread(const Rebuilding& rebuilding, ptrace::RemoteCall& unmapping);

// Detaches. The program stands still, as if by SIGSTOP, and none of its threads makes a step before SIGCONT.
[[nodiscard]] Result<> let_stand(const Rebuilding& rebuilding);

// Detaches. The program runs, or stands still by job control as it did.
void let_go(const Rebuilding& rebuilding);

}  // namespace cairn::restart
