// The verbs of the `cairn` command: what each is called, which program does it, and what `cairn help` says.
#pragma once

#include <span>
#include <string_view>

namespace cairn::cli {

struct Verb {
    std::string_view name;
    std::string_view program;  // "" for what the front does itself
    bool pass_name;            // the program does several verbs and gets the name as its first argument
    std::string_view synopsis;
    std::string_view summary;
    std::string_view help;  // what follows the synopsis in `cairn help VERB`
};

[[nodiscard]] std::span<const Verb> verbs();
[[nodiscard]] const Verb* find_verb(std::string_view name);

// The verb that a mistyped name most likely meant; null if none is near.
[[nodiscard]] const Verb* nearest_verb(std::string_view name);

}  // namespace cairn::cli
