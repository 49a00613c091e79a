// What comes from a process (its name, arguments, paths, sockets, environment) may hold anything: escape
// sequences for a terminal, line ends, half a UTF-8 letter. Whatever is printed goes through here.
//
// The static front command links this as well: nothing but the C library and std::string.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// One line of UTF-8 without control characters (C0, DEL, C1), line ends and marks that turn the direction of
// the text; each byte of those, and each that is no UTF-8, is \xNN. Printable text comes back as it is, so
// that it may be done twice.
[[nodiscard]] std::string printable(std::string_view text);

// The same for a message: its line ends stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

// The first `columns` characters.
[[nodiscard]] std::string first_columns(std::string text, std::size_t columns);

// Serialized JSON that is UTF-8, fit for a terminal: what printable() changes is \uNNNN. Means the same.
[[nodiscard]] std::string printable_json(std::string text);

}  // namespace cairn
