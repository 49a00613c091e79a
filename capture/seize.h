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
// seized them. So waitpid is called meanwhile, and what it tells is added to `events`. Uses SIGALRM; one at a
// time.
class Seizer {
  public:
    explicit Seizer(std::vector<WaitEvent>& events) : events_(&events) {}
    ~Seizer() { pause(); }
    Seizer(const Seizer&) = delete;
    Seizer& operator=(const Seizer&) = delete;

    [[nodiscard]] Result<> seize(pid_t tid, unsigned long options);
    // From here to the next seize() nobody else calls waitpid. Between seizes of thousands of threads it goes
    // on: to set a timer, and to stop it, takes as long as the seize.
    void pause();

  private:
    std::vector<WaitEvent>* events_;
    bool runs_ = false;
};

}  // namespace cairn::capture
