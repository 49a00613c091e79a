// How schema structs become JSON values or MessagePack (common/schema/write.h) and come back, by the
// description of their fields. For the sources that convert a certain struct (json.cpp,
// resources/schema/json.cpp): they alone include it, for it is big.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "common/program_address.h"
#include "common/program_fd.h"
#include "common/schema/packed.h"
#include "common/schema/process.h"
#include "common/schema/readable.h"
#include "common/schema/shapes.h"
#include "common/schema/write.h"

namespace cairn::schema::convert {

// Thrown and caught within this file: what is wrong, and where ("threads[3].tid").
struct Wrong {
    std::string where, what;
};

[[noreturn]] inline void wrong(std::string what) {
    throw Wrong{"", std::move(what)};
}

// Of a field, and of an element of a list. Made only for who reads what is wrong: there are a thousand of
// them in an image.
inline std::string text_of(std::string_view name) {
    return std::string(name);
}
inline std::string text_of(std::size_t number) {
    return fmt::format("[{}]", number);
}

template <class Where, class F>
void inside(const Where& where, F&& read_it) {
    try {
        read_it();
    } catch (Wrong& problem) {
        const bool dot = !problem.where.empty() && problem.where.front() != '[';
        problem.where = text_of(where) + (dot ? "." : "") + problem.where;
        throw;
    }
}

template <Readable V, Listed T>
void read(const V& from, T& to);
template <Readable V, class T>
void read(const V& from, std::vector<T>& to);
template <Readable V, class Value>
void read(const V& from, std::map<std::string, Value>& to);
template <Readable V, class... Each>
void read(const V& from, std::variant<Each...>& to);

template <Readable V>
void read(const V& from, Bytes& to) {
    if (!is_binary(from)) wrong(fmt::format("is {}, not binary", from.type_name()));
    const auto bytes = binary_of(from);
    to.assign(bytes.begin(), bytes.end());
}

template <Readable V, class T>
requires std::is_integral_v<T>
void read(const V& from, T& to) {
    if constexpr (std::is_same_v<T, bool>) {
        if (!is_boolean(from)) wrong(fmt::format("is {}, not a boolean", from.type_name()));
        to = boolean_of(from);
    } else {
        if (!is_integer(from)) wrong(fmt::format("is {}, not an integer", from.type_name()));
        const auto [negative, bits] = integer_of(from);
        const auto value = static_cast<std::int64_t>(bits);
        if (negative ? !std::in_range<T>(value) : !std::in_range<T>(bits))
            wrong(negative ? fmt::format("is {}, out of range", value)
                           : fmt::format("is {}, out of range", bits));
        to = static_cast<T>(bits);
    }
}

template <Readable V, class Space>
void read(const V& from, Id<Space>& to) {
    std::int32_t number = 0;
    read(from, number);
    to = Id<Space>(number);
}

template <Readable V>
void read(const V& from, ProgramFd& to) {
    std::int32_t number = 0;
    read(from, number);
    to = ProgramFd(number);
}

template <Readable V>
void read(const V& from, ProgramAddress& to) {
    std::uint64_t value = 0;
    read(from, value);
    to = ProgramAddress(value);
}

template <Readable V>
void read(const V& from, double& to) {
    if (!is_number(from)) wrong(fmt::format("is {}, not a number", from.type_name()));
    to = number_of(from);
}

// Handed on as it is.
inline void read(const json& from, json& to) {
    to = from;
}

template <Readable V>
void read(const V& from, std::string& to) {
    if (!is_string(from)) wrong(fmt::format("is {}, not a string", from.type_name()));
    to = string_of(from);
}

template <Readable V, class E>
requires std::is_enum_v<E>
void read(const V& from, E& to) {
    if (!is_string(from)) wrong(fmt::format("is {}, not a string", from.type_name()));
    const auto name = string_of(from);
    for (const auto& [each, known] : EnumNames<E>::table)
        if (known == name) {
            to = each;
            return;
        }
    wrong(fmt::format("is '{}', which this cairn doesn't know", name));
}

template <Readable V>
void need_array(const V& from, std::size_t at_least = 0) {
    if (!is_array(from)) wrong(fmt::format("is {}, not an array", from.type_name()));
    if (from.size() < at_least) wrong(fmt::format("has {} elements, not {}", from.size(), at_least));
}

template <Readable V>
void read(const V& from, std::pair<ProgramAddress, std::uint64_t>& to) {
    need_array(from, 2);
    const auto& all = elements_of(from);
    read(all[0], to.first);
    read(all[1], to.second);
}

template <Readable V, class Place>
void read(const V& from, RunOf<Place>& to) {
    need_array(from, 4);
    const auto& all = elements_of(from);
    read(all[0], to.at);
    read(all[1], to.length);
    read(all[2], to.offset);
    read(all[3], to.hash);
}

template <Readable V, class T, std::size_t N>
void read(const V& from, T (&to)[N]) {
    need_array(from, N);
    const auto& all = elements_of(from);
    for (std::size_t i = 0; i < N; ++i) inside(i, [&] { read(all[i], to[i]); });
}

template <Readable V, class T>
void read(const V& from, std::vector<T>& to) {
    if constexpr (IsRun<T>::value) {
        if (is_binary(from)) {
            const auto packed = binary_of(from);
            if (packed.size() % sizeof(T) != 0)
                wrong(fmt::format("has {} bytes, not a multiple of 32", packed.size()));
            to.resize(packed.size() / sizeof(T));
            if (!to.empty()) std::memcpy(to.data(), packed.data(), packed.size());
            return;
        }
    }
    need_array(from);
    to.clear();
    to.reserve(from.size());
    for (const V& each : elements_of(from)) inside(to.size(), [&] { read(each, to.emplace_back()); });
}

template <Readable V>
void need_map(const V& from) {
    if (!is_map(from)) wrong(fmt::format("is {}, not a map", from.type_name()));
}

template <Readable V, class Value>
void read(const V& from, std::map<std::string, Value>& to) {
    need_map(from);
    to.clear();
    members_of(from).each([&](std::string_view key, const V& value) {
        inside(key, [&] { read(value, to[std::string(key)]); });
    });
}

template <Readable V, class... Each>
void read(const V& from, std::variant<Each...>& to) {
    need_map(from);
    if (from.size() != 1) wrong(fmt::format("has {} keys, not one", from.size()));
    members_of(from).each([&](std::string_view name, const V& value) {
        const auto read_if = [&]<class T>(std::type_identity<T>) {
            if (name != T::kind) return false;
            inside(name, [&] { read(value, to.template emplace<T>()); });
            return true;
        };
        if (!(read_if(std::type_identity<Each>()) || ...))
            wrong(fmt::format("is '{}', which this cairn doesn't know", name));
    });
}

// What a description says of a field besides its name.
template <class Mark>
concept Ranged = requires(const Mark& mark) {
    mark.least;
    mark.most;
};
template <class Mark>
concept MayBeMissing = requires {
    requires Mark::may_be_missing;
};

template <class Mark>
concept OfAnObject = requires {
    requires Mark::is_object;
};

template <class T, class Mark>
void check(const T& value, const Mark& mark) {
    if constexpr (OfAnObject<Mark>) {
        need_map(value);
    } else if constexpr (!Ranged<Mark>) {
        return;
    } else if constexpr (IsOptional<T>::value) {
        if (value) check(*value, mark);
    } else if constexpr (Numbered<T>) {
        check(value.number(), mark);
    } else if constexpr (std::is_floating_point_v<T>) {
        if (!(value >= static_cast<T>(mark.least) && value <= static_cast<T>(mark.most)))
            wrong(fmt::format("is {}, out of range", value));
    } else {
        if (std::cmp_less(value, mark.least) || std::cmp_greater(value, mark.most))
            wrong(fmt::format("is {}, out of range", value));
    }
}

template <class T>
concept Lenient = requires {
    requires T::lenient;
};

// What other programs send may have fields that aren't known, and null for one that is missing.
template <class T>
concept Open = requires(const T& value) {
    is_open(value);
};

// Every field has to be there but those that may be missing, and no other; unless the struct is a lenient or
// an open one.
template <Readable V, Listed T>
void read(const V& from, T& to) {
    need_map(from);
    auto members = members_of(from);
    std::size_t there = 0;
    fields(to, [&]<class M>(std::string_view name, M& member, const auto&... mark) {
        const V* found = members.find(name);
        if (found != nullptr) ++there;
        if (Open<T> && found != nullptr && is_null(*found)) found = nullptr;
        inside(name, [&] {
            if constexpr (IsOptional<M>::value) {
                if (found == nullptr)
                    member.reset();
                else
                    read(*found, member.emplace());
            } else {
                if (found != nullptr)
                    read(*found, member);
                else if (!Lenient<T> && !(MayBeMissing<std::remove_cvref_t<decltype(mark)>> || ...))
                    wrong("is missing");
            }
            (check(member, mark), ...);
        });
    });
    if (there == members.size() || Lenient<T> || Open<T>) return;
    std::vector<std::string_view> known;
    fields(to, [&](std::string_view name, const auto&, const auto&...) { known.push_back(name); });
    members.each([&](std::string_view name, const V&) {
        if (std::ranges::find(known, name) == known.end())
            inside(name, [] { wrong("is a field that this cairn doesn't know"); });
    });
    wrong("has a field twice");
}

template <class T, Readable V>
Result<T> read_whole(const V& value, std::string_view what) {
    T result;
    try {
        read(value, result);
    } catch (const Wrong& problem) {
        return fail_code(ExitCode::damaged, "{}{}{} {}", what, problem.where.empty() ? "" : ": ",
                         problem.where, problem.what);
    }
    return result;
}

template <class T>
Result<T> decode(std::span<const std::uint8_t> data, std::string_view what) {
    return read_whole<T>(TRY(Packed::of(data, what)), what);
}

}  // namespace cairn::schema::convert
