// What the fields of schema structs are like, as far as conversion goes (common/schema/convert.h).
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/schema/process.h"

namespace cairn::schema::convert {

template <class T>
concept Listed = requires(T& value) {
    fields(value, [](std::string_view, auto&, auto...) {});
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
concept Numbered = requires(const T& value) {
    value.number();
};

template <class T>
struct IsRun : std::false_type {};
template <class Place>
struct IsRun<RunOf<Place>> : std::true_type {};

}  // namespace cairn::schema::convert
