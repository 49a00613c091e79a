// The folder of a file that a restart makes, where somebody has removed it since the checkpoint: temporary
// files go with their folders.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/fd.h"
#include "resources/restore/opening.h"

namespace cairn::restart {

// The folder of the file `path`, O_PATH. If it isn't there, and the one above it is, it is made with `mode`
// and this is noted; below an MPI launcher's folder (common/launchers_folder.h) all that lead to it are
// made, for the user alone. No symbolic link is followed at a component that is made. An invalid one, and
// errno, where it can't be had.
[[nodiscard]] Fd folder_of_lost(Opening& opening, const std::string& path, mode_t mode);

}  // namespace cairn::restart
