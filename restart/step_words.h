// What the restorer was doing when it gave up.
#pragma once

#include <cstdint>

namespace cairn::restart {

// `step`: of restorer::Step, as the blob has left it in its parameters.
[[nodiscard]] const char* step_words(std::uint32_t step);

}  // namespace cairn::restart
