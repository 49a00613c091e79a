// What a user is told of differences.
#pragma once

#include <span>
#include <string>

#include "witness/compare.h"

namespace cairn::witness {

// "1234/status/SigBlk: 0000 -> 0001"
[[nodiscard]] std::string as_line(const Difference& difference);

// Lines for a user who wanted to know whether a restart was exact: how much was compared, and what differs,
// one process after the other. `compared`: how many things.
[[nodiscard]] std::string report(std::span<const Difference> differences, std::size_t compared);

}  // namespace cairn::witness
