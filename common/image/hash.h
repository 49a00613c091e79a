// XXH3-64 (seed 0), the checksum of everything in a checkpoint. It finds damage, not forgery.
#pragma once

#include <cstdint>
#include <span>

namespace cairn {

[[nodiscard]] std::uint64_t hash64(std::span<const std::uint8_t> data);

}  // namespace cairn
