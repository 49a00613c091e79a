// What only a thread of the process itself can ask, and what only a tracer sees.
#pragma once

#include <sys/types.h>

#include <vector>

#include "witness/facts.h"
#include "witness/unseen.h"

namespace cairn::witness {

// Stops the process's threads one after the other, those that don't notice, and lets each go on. What is
// learned of libc goes to `layout`.
void see_inside(Facts& facts, pid_t pid, const std::vector<pid_t>& threads, LibcLayout& layout);

}  // namespace cairn::witness
