// How wide text is on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::top {

// Columns that printable text takes: none for combining marks, two for most of East Asia's characters.
[[nodiscard]] std::size_t width(std::string_view text);
// Cut to `columns`, or with spaces behind it.
[[nodiscard]] std::string fitted(std::string_view text, std::size_t columns);
// Cut only.
[[nodiscard]] std::string cut(std::string_view text, std::size_t columns);

}  // namespace cairn::top
