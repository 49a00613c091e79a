// What /proc and calls from outside tell of a process and each of its threads (proc(5)).
#pragma once

#include <sys/types.h>

#include "witness/facts.h"

namespace cairn::witness {

// Under PID/: what the threads of a process have in common, or is asked of the process as a whole.
void see_process(Facts& facts, pid_t pid);
// Under PID/task/TID/: what each thread may have for itself.
void see_thread(Facts& facts, pid_t pid, pid_t tid);

}  // namespace cairn::witness
