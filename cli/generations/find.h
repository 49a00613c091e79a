// The generations of checkpoints in a folder: D/<cid>/<generation>/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::generations {

struct Generation {
    std::string folder;
    std::string computation;  // the folder with it and its sisters
    std::uint32_t number = 0;
};

// All complete ones below `path`: a folder of checkpoints, of one computation, or of one generation. Those of
// a computation stand together, the oldest first. Errors: ExitCode::failed where there is none.
[[nodiscard]] Result<std::vector<Generation>> find(const std::string& path);

}  // namespace cairn::generations
