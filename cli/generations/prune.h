// Removes generations that nobody wants any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/generations/find.h"

namespace cairn::generations {

struct PruneWishes {
    std::optional<std::uint32_t> keep;          // so many of each computation stay, the newest
    std::optional<std::chrono::seconds> older;  // only those that were taken longer ago
    bool damaged = false;                       // those that aren't whole, and no others
};

// Which of these are to go. The newest of a computation never is, unless it is damaged and those are asked
// for.
[[nodiscard]] std::vector<Generation> choose(const std::vector<Generation>& all, const PruneWishes& wishes);

// Bytes on the disk that go with it: those of files that have no other name (an image that a later generation
// needs is linked there).
[[nodiscard]] std::uint64_t bytes_freed(const std::string& folder);

// First its name goes: half a checkpoint must never look like one. Where `latest` led to it, it leads to the
// newest that is left from then on. Errors: it couldn't be removed, or not all of it.
[[nodiscard]] Result<> remove(const Generation& generation);

// "90s", "15m", "12h", "7d", "4w". Errors: ExitCode::usage.
[[nodiscard]] Result<std::chrono::seconds> read_age(const std::string& text);

}  // namespace cairn::generations
