// Which process: a pid can be a stranger's by the time somebody looks.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace cairn::restart::pages {

// A pid and its start time in one word, for an atomic. 0: nobody.
using Identity = std::uint64_t;

// Waits for a descriptor when the table is full.
[[nodiscard]] Identity own_identity();

// False also if there is only a zombie of it. True if that can't be told.
[[nodiscard]] bool lives(Identity who);

}  // namespace cairn::restart::pages
