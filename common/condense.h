// Notes that are many and much the same, for people to read and for messages that have a limit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// For people: of more than three notes that differ in numbers, names and paths only, the first, and how many
// others there are. `where` tells where all can be read ("cairn inspect DIR"); "" if there is no such place.
[[nodiscard]] std::vector<std::string> condense(const std::vector<std::string>& notes,
                                                std::string_view where = {});

// For messages and manifests: all of them, in their order, as far as 64 KiB hold, and how many are left out.
// A coordinator's message is at most 256 KiB long (docs/protocol.md), and a program may have thousands of
// sockets.
[[nodiscard]] std::vector<std::string> within_limit(const std::vector<std::string>& notes);

}  // namespace cairn
