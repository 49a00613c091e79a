// Folders for checkpoints are their owner's alone: who can write there can have root start what he likes.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::coordinator {

// Makes D, whatever of the way there is missing, and D/<cid>; all 0700 whatever the umask says. Those that
// are there must belong to us (D: or to root) and be writable by nobody else; D may have the sticky bit.
// D/latest and D/restart.sh must be links of ours, or missing. Errors: ExitCode::refused, with what to do.
[[nodiscard]] Result<> prepare_folder(const std::string& root, const std::string& cid);

// A folder that isn't there yet, 0700. Errors: errno, EEXIST included.
[[nodiscard]] Result<> make_folder(const std::string& path);

// "" if `link` is missing or one that publishing has made, else why it can't be replaced, and what to do.
[[nodiscard]] std::string link_problem(const std::string& link);

// A note if a restart will not believe the checkpoint: others can write a folder above it.
[[nodiscard]] std::vector<std::string> doubts(const std::string& checkpoint);

}  // namespace cairn::coordinator
