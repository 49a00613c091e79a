// Notes that are many and much the same, for people to read and for messages that have a limit.
#pragma once

#include <string>
#include <vector>

namespace cairn {

// Of notes that differ in numbers, names and paths only, more than eight, the first four stay, with how many
// others there are behind them. Of all together, in their order, as many as 64 KiB hold: a coordinator's
// message is at most 256 KiB long (docs/protocol.md), and a program may have thousands of sockets.
[[nodiscard]] std::vector<std::string> condense(const std::vector<std::string>& notes);

}  // namespace cairn
