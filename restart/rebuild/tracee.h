// A process that the restart tool is rebuilding, under its ptrace from before its exec until it goes.
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/proc.h"
#include "common/ptrace/thread.h"

namespace cairn::restart {

// Of every thread that is rebuilt: the process is seized with them, and its new threads and children have
// them of it.
inline constexpr unsigned tracee_options =
    PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL;

enum class Event {
    execed,   // stopped inside execve
    trapped,  // a breakpoint: the blob has done what it was told
    stopped,  // PTRACE_EVENT_STOP
    ended,    // the thread has gone
    crashed,  // any other signal
};

struct Happening {
    pid_t tid = 0;
    Event event = Event::stopped;
    int detail = 0;  // signal, or wait status
};

// The next thing that happens to any tracee; waits up to `milliseconds`. tid 0: nothing did. Helpers that
// only have to be let go on (new threads, clone events) are handled here.
[[nodiscard]] Happening next_event(const std::map<pid_t, pid_t>& process_of, int milliseconds);

}  // namespace cairn::restart
