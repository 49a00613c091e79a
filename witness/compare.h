// What is different after a restart.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "witness/facts.h"

namespace cairn::witness {

enum class Programs {
    stand_still,  // or do the same all the time
    go_on,        // what they do isn't compared, only what they have
};

struct Difference {
    std::string name;
    std::optional<std::string> before, after;
};

// Of several looks before and several after: what has moved by itself between those before isn't compared,
// and something is different only if it was in no look before as it is in any look after, and no rule names
// it.
[[nodiscard]] std::vector<Difference> differences(std::span<const Facts> before, std::span<const Facts> after,
                                                  Programs programs = Programs::stand_still);

// All rules with their reasons, as `cairn-witness --rules` prints them and docs/witness.md has them.
[[nodiscard]] std::string rules_as_text();

}  // namespace cairn::witness
