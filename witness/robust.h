// Mutexes that a thread holds and the kernel has to give back when it dies (get_robust_list(2)).
#pragma once

#include <sys/types.h>

#include <vector>

#include "witness/facts.h"
#include "witness/unseen.h"

namespace cairn::witness {

// Each as a fact of its own, and its word as memory that isn't compared: the kernel reads the owner's id in
// it, which is another than what the program calls the thread where ids are virtual.
void see_robust_list(Facts& facts, std::vector<Unseen>& unseen, pid_t pid, pid_t tid);

}  // namespace cairn::witness
