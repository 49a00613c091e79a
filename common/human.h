// Figures as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "common/printable.h"  // IWYU pragma: export

namespace cairn {

// 0 B, 17 B, 1.5 KiB, 312 MiB, 2.00 GiB: three digits, binary units.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

// 850 ns, 12.3 us, 4.56 ms, 1.23 s, 2 min 5 s, 3 h 2 min. Negative: with a minus sign.
[[nodiscard]] std::string human_duration(std::int64_t ns);

// "1 process", "3 processes": `plural` "" puts an s behind `one`.
[[nodiscard]] std::string human_count(std::uint64_t n, const std::string& one,
                                      const std::string& plural = "");

}  // namespace cairn
