// MessagePack that somebody else may have written.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "common/error.h"

namespace cairn::schema {

// Nothing is reserved for lengths that it states, and it nests no deeper than any schema. Errors:
// ExitCode::damaged, with `what` in front.
[[nodiscard]] Result<nlohmann::json> parse(std::span<const std::uint8_t> data, std::string_view what);

}  // namespace cairn::schema
