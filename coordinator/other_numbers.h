// Processes and threads of the coordinator's whose numbers are none that a restart needs for the programs: it
// would have them for as long as it lives.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <thread>

#include "common/ids.h"

namespace cairn::coordinator {

// fork(2), until the child has a number that isn't one of `avoid`, with some room behind it for threads.
[[nodiscard]] pid_t fork_elsewhere(const std::set<KernelId>& avoid);

// A thread that does this, the same way. Throws std::system_error as std::thread does.
[[nodiscard]] std::thread thread_elsewhere(const std::set<KernelId>& avoid,
                                           const std::function<void()>& body);

}  // namespace cairn::coordinator
