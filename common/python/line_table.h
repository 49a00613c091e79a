// Which line of the source an instruction of Python's belongs to, by the table of its code object.
#pragma once

#include <cstdint>
#include <span>

namespace cairn::python {

// `minor` of 3.minor: until 3.9 it is co_lnotab, of 3.10 a co_linetable of pairs (PEP 626), those behind it
// one with columns (PEP 657, Objects/locations.md). `at`: bytes from the first instruction. 0: none.
[[nodiscard]] int line_of(unsigned minor, std::span<const std::uint8_t> table, int first_line,
                          std::uint64_t at);

}  // namespace cairn::python
