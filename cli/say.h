// Messages of the static front: no iostream, no fmt, one write(2) each.
#pragma once

#include <string>
#include <string_view>

namespace cairn::cli {

// "cairn: TEXT\n" to stderr.
void complain(std::string_view text);

// To stdout; false when it couldn't be written (full disk, closed pipe).
[[nodiscard]] bool print(std::string_view text);

}  // namespace cairn::cli
