// What a thread goes on with, and the time that the process has used before.
#pragma once

#include <cstddef>

#include "common/error.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// Registers and signal mask of the thread with this index; calls that were interrupted are made again, with
// what was left of their timeouts.
[[nodiscard]] Result<> set_thread(const Rebuilding& rebuilding, std::size_t index);

// A new process for the kernel: what the image's had used is added by the library, from the moment on at
// which it goes on. Whatever was spent on rebuilding isn't the program's.
[[nodiscard]] Result<> set_cpu_time(const Rebuilding& rebuilding);

}  // namespace cairn::restart
