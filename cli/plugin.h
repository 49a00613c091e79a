// `cairn launch --plugin`: libraries that are preloaded for their hooks (part/cairn.h).
#pragma once

#include <string>
#include <vector>

namespace cairn::cli {

// Puts them, and libcairn-part.so, which stands beside `library` (libcairn.so), in front of LD_PRELOAD.
// Returns "" or why not: the dynamic linker itself would only warn, and the program run without.
[[nodiscard]] std::string preload_plugins(const std::string& library,
                                          const std::vector<std::string>& plugins);

}  // namespace cairn::cli
