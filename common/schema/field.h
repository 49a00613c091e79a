// How a schema struct describes its fields, once: what conversion, tests and the format's document go by.
// fields(s, f) calls f(name, member) for each member of s, const or not, in the order of the declaration. A
// member that is a std::optional may be missing in an image, every other one has to be there; one that is
// described by CAIRN_FIELD_WITHIN has to be in a range: f(name, member, Within{least, most}).
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::schema {

using Bytes = std::vector<std::uint8_t>;

template <class S, class T>
concept Struct = std::same_as<std::remove_const_t<S>, T>;

struct Within {
    std::int64_t least = 0, most = 0;
};

#define CAIRN_FIELD(name) f(std::string_view{#name}, s.name)
#define CAIRN_FIELD_WITHIN(name, least, most) \
    f(std::string_view{#name}, s.name, ::cairn::schema::Within{least, most})

// Enumerations are strings on disk: their order may change, their names may not.
template <class E>
struct EnumNames;

// The name on disk; "" for a value that is none of the enumeration.
template <class E>
constexpr std::string_view name_of(E value) {
    for (const auto& [each, name] : EnumNames<E>::table)
        if (each == value) return name;
    return {};
}

}  // namespace cairn::schema
