// PTRACE_SEIZE of threads whose process may exec at this moment.
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>

#include <vector>

#include "common/error.h"

namespace cairn::capture {

// Of every thread that a checkpoint seizes.
inline constexpr unsigned long seize_options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

// What waitpid has told of a thread that we trace.
struct WaitEvent {
    pid_t tid = 0;
    int status = 0;
};

// ptrace::seize, which waits for an exec that is under way in the thread's process (cred_guard_mutex,
// kernel/ptrace.c), while that exec waits until the siblings that it has killed are reaped: by us, if we have
// seized them. So waitpid is called meanwhile, and what it tells is added to `events`. Uses SIGALRM.
[[nodiscard]] Result<> seize_waiting(pid_t tid, unsigned long options, std::vector<WaitEvent>& events);

}  // namespace cairn::capture
