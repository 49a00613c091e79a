// `cairn checkpoint --witness`: what the kernel shows of the programs just before a checkpoint is kept with
// it, so that `cairn restart --verify` can say what differs afterwards (docs/witness.md).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::control {

// What cairn-witness writes about the programs; `region`: the session's. Takes a second or more. The programs
// go on meanwhile, and stand still for milliseconds.
[[nodiscard]] Result<std::string> take_looks(const std::vector<pid_t>& programs, const std::string& region);

// Into the folder of the checkpoint, which is a good one already.
[[nodiscard]] Result<> keep_looks(const std::string& checkpoint, const std::string& looks);

}  // namespace cairn::control
