// `cairn restart --check --on LIST`: which hosts could take a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::restart {

// Asks each host of `list` (names or addresses, commas between them) whether the checkpoint in `directory`
// could be restarted there, and prints a line for each, in this order. `directory` is absolute, and is asked
// for by the same name there; `options` are those of `cairn restart --check`. The way there is ssh without
// questions, or the command that CAIRN_RSH names, which is given the host and a line for its shell; a minute
// for each at the most. 0: all of them could. ExitCode::refused: one couldn't, or couldn't be asked.
// Errors: usage, for what is no list of hosts.
[[nodiscard]] Result<int> check_hosts(const std::string& list, const std::vector<std::string>& options,
                                      const std::string& directory);

}  // namespace cairn::restart
