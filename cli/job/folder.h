// The folder of a job's or a service's checkpoints.
#pragma once

#include <string>

#include "common/error.h"

namespace cairn::job {

// Makes it (mode 0700; the folders above it as they come) if it isn't there. What is there is refused unless
// it is a folder that its owner alone can write: keys come into it, and what is executed.
[[nodiscard]] Result<> make_own_folder(const std::string& path);

}  // namespace cairn::job
