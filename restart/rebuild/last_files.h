// Descriptors that can be opened only when all memory and all threads of all processes are there, by their
// holders: pidfds of threads (PIDFD_THREAD), files of /proc/PID/task/TID, /proc/PID/maps and such,
// userfaultfds.
#pragma once

#include <vector>

#include "common/error.h"
#include "restart/computation.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// When all processes are complete, and before any goes on: each has a placeholder at the number. Who shares a
// description takes it from the first who has it; where it may not (yama), it has one of its own.
[[nodiscard]] Result<> open_last_files(const std::vector<Rebuilding>& processes, const ObjectIndex& objects);

}  // namespace cairn::restart
