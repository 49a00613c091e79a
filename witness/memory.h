// The memory of a process: what is mapped where, with which marks, what is in it, and what it shares with
// other processes.
#pragma once

#include <sys/types.h>

#include <vector>

#include "witness/facts.h"
#include "witness/unseen.h"

namespace cairn::witness {

// Behind the name of a mapping whose pages aren't all there and whose file can't be read by whoever looks:
// what is in it isn't known, and isn't compared.
inline constexpr const char* content_not_seen = "/content not seen";

// What is `unseen` counts as zeros.
void see_memory(Facts& facts, pid_t pid, const std::vector<Unseen>& unseen);

}  // namespace cairn::witness
