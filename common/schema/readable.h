// What schema structs are read from: a JSON value, or MessagePack without a document in between. Included by
// common/schema/convert.h only.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/schema/packed.h"

namespace cairn::schema::convert {

using nlohmann::json;

// What is asked of a value, of whichever kind it is.
template <class Value>
concept Readable = std::same_as<Value, json> || std::same_as<Value, Packed>;

inline bool is_boolean(const json& from) {
    return from.is_boolean();
}
inline bool is_boolean(const Packed& from) {
    return from.kind() == Packed::Kind::boolean;
}
inline bool is_integer(const json& from) {
    return from.is_number_integer();
}
inline bool is_integer(const Packed& from) {
    return from.kind() == Packed::Kind::integer;
}
inline bool is_number(const json& from) {
    return from.is_number();
}
inline bool is_number(const Packed& from) {
    return from.kind() == Packed::Kind::number || is_integer(from);
}
inline bool is_string(const json& from) {
    return from.is_string();
}
inline bool is_string(const Packed& from) {
    return from.kind() == Packed::Kind::string;
}
inline bool is_binary(const json& from) {
    return from.is_binary();
}
inline bool is_binary(const Packed& from) {
    return from.kind() == Packed::Kind::binary;
}
inline bool is_array(const json& from) {
    return from.is_array();
}
inline bool is_array(const Packed& from) {
    return from.kind() == Packed::Kind::array;
}
inline bool is_map(const json& from) {
    return from.is_object();
}
inline bool is_map(const Packed& from) {
    return from.kind() == Packed::Kind::map;
}
inline bool is_null(const json& from) {
    return from.is_null();
}
inline bool is_null(const Packed& from) {
    return from.kind() == Packed::Kind::null;
}
inline bool boolean_of(const json& from) {
    return from.get<bool>();
}
inline bool boolean_of(const Packed& from) {
    return from.as_boolean();
}
inline double number_of(const json& from) {
    return from.get<double>();
}
inline double number_of(const Packed& from) {
    return from.as_number();
}
inline std::string_view string_of(const json& from) {
    return from.get_ref<const std::string&>();
}
inline std::string_view string_of(const Packed& from) {
    return from.as_string();
}
inline std::span<const std::uint8_t> binary_of(const json& from) {
    return from.get_binary();
}
inline std::span<const std::uint8_t> binary_of(const Packed& from) {
    return from.as_binary();
}

// An integer: its sign, and its bits in two's complement.
struct Integer {
    bool negative;
    std::uint64_t bits;
};
inline Integer integer_of(const json& from) {
    if (from.is_number_unsigned()) return {false, from.get<std::uint64_t>()};
    const auto value = from.get<std::int64_t>();
    return {value < 0, static_cast<std::uint64_t>(value)};
}
inline Integer integer_of(const Packed& from) {
    return {from.is_negative(), from.as_unsigned()};
}

// Of an array.
inline const json::array_t& elements_of(const json& from) {
    return from.get_ref<const json::array_t&>();
}
inline std::vector<Packed> elements_of(const Packed& from) {
    return from.elements();
}

// A map's keys and values. Fields are asked for in the order in which they are written.
class JsonMembers {
  public:
    explicit JsonMembers(const json& from) : from_(from) {}
    [[nodiscard]] const json* find(std::string_view name) const {
        const auto found = from_.find(name);
        return found == from_.end() ? nullptr : &*found;
    }
    [[nodiscard]] std::size_t size() const { return from_.size(); }
    template <class F>
    void each(F&& f) const {
        for (const auto& [name, value] : from_.items()) f(std::string_view(name), value);
    }

  private:
    const json& from_;
};
class PackedMembers {
  public:
    explicit PackedMembers(const Packed& from) : all_(from.members()) {}
    [[nodiscard]] const Packed* find(std::string_view name) {
        for (std::size_t i = 0; i < all_.size(); ++i, ++next_) {
            if (next_ >= all_.size()) next_ = 0;
            if (all_[next_].first == name) return &all_[next_++].second;
        }
        return nullptr;
    }
    [[nodiscard]] std::size_t size() const { return all_.size(); }
    template <class F>
    void each(F&& f) const {
        for (const auto& [name, value] : all_) f(name, value);
    }

  private:
    std::vector<std::pair<std::string_view, Packed>> all_;
    std::size_t next_ = 0;
};
inline JsonMembers members_of(const json& from) {
    return JsonMembers(from);
}
inline PackedMembers members_of(const Packed& from) {
    return PackedMembers(from);
}

}  // namespace cairn::schema::convert
