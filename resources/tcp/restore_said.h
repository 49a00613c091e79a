// What another part or the coordinator says of a connection: JSON that may be anything.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>

namespace cairn::restart {

// A field, or 0 (false) where it is missing or of another type.
template <std::integral T>
[[nodiscard]] T said_number(const nlohmann::json& said, const std::string& name) {
    const auto found = said.find(name);
    if (found == said.end()) return T{};
    if (found->is_boolean()) return static_cast<T>(found->template get<bool>());
    if (!found->is_number_integer()) return T{};
    return found->is_number_unsigned() ? static_cast<T>(found->template get<std::uint64_t>())
                                       : static_cast<T>(found->template get<std::int64_t>());
}

// As said_number: "" where it is missing.
[[nodiscard]] inline std::string said_text(const nlohmann::json& said, const std::string& name) {
    const auto found = said.find(name);
    return found != said.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace cairn::restart
