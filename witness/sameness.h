// What processes and threads have in common, which only kcmp(2) tells: tables, memory, and open file
// descriptions.
#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "witness/facts.h"

namespace cairn::witness {

// Each task (threads by their ids) is named after the first one that it shares with.
void see_shared_tables(Facts& facts, const std::map<pid_t, std::vector<pid_t>>& threads);
// Each descriptor is named after the first that leads to the same open file description.
void see_shared_files(Facts& facts, const std::map<pid_t, std::vector<int>>& descriptors);

}  // namespace cairn::witness
