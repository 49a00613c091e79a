// Where cairn's own programs and library are, in the build tree (all programs in one folder, the library in
// ../lib) and installed (PREFIX/bin/cairn, PREFIX/libexec/cairn/cairn-VERB, PREFIX/lib/cairn/libcairn.so).
// Found from the folder of the running program, so an installed tree may be moved as a whole.
//
// The static front command links this as well: nothing but the C library and std::string.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// Absolute path of `name`: "cairn" or "cairn-VERB". "" if /proc isn't mounted or there is no such program.
[[nodiscard]] std::string own_program(std::string_view name);

// Absolute path of libcairn.so; "" as above.
[[nodiscard]] std::string own_library();

}  // namespace cairn
