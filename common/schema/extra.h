// schema::Object::extra: what a kind of socket says of itself beyond the common fields. A small map in
// MessagePack, written by resources/KIND/capture.cpp and read by resources/KIND/restore.cpp; its fields are
// listed in docs/image-format.md.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/schema/process.h"

namespace cairn::schema {

[[nodiscard]] inline Bytes pack(const nlohmann::json& extra) {
    return nlohmann::json::to_msgpack(extra);
}

// Somebody else may have written them: nothing is reserved for lengths that they state, and they nest no
// deeper than any schema (json.cpp).
[[nodiscard]] Result<nlohmann::json> unpack(const Bytes& bytes);

// A field, or 0 (false, empty) where it is missing or of another type.
template <std::integral T>
[[nodiscard]] T number(const nlohmann::json& extra, const std::string& name) {
    const auto found = extra.find(name);
    if (found == extra.end()) return T{};
    if (found->is_boolean()) return static_cast<T>(found->template get<bool>());
    if (!found->is_number_integer()) return T{};
    return found->is_number_unsigned() ? static_cast<T>(found->template get<std::uint64_t>())
                                       : static_cast<T>(found->template get<std::int64_t>());
}

// Bytes that may be no text (addresses, structs); empty where they are missing.
[[nodiscard]] inline nlohmann::json binary(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::uint8_t*>(data);
    return nlohmann::json::binary(std::vector<std::uint8_t>(begin, begin + size));
}
[[nodiscard]] inline std::string bytes(const nlohmann::json& extra, const std::string& name) {
    const auto found = extra.find(name);
    if (found == extra.end() || !found->is_binary()) return {};
    const auto& value = found->get_binary();
    return {value.begin(), value.end()};
}
[[nodiscard]] inline std::string text(const nlohmann::json& extra, const std::string& name) {
    const auto found = extra.find(name);
    return found != extra.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace cairn::schema
