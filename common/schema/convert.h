// How schema structs become JSON values and come back, by the description of their fields. For the sources
// that convert a certain struct (json.cpp, resources/schema/json.cpp): they alone include it, for it is big.
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
#include "common/schema/msgpack.h"
#include "common/schema/process.h"

namespace cairn::schema::convert {

using nlohmann::json;

enum class Style { text, disk };

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

// --- to JSON

inline json write(const Bytes& bytes, Style) {
    return json::binary(bytes);
}

template <class Space>
json write(const Id<Space>& id, Style) {
    return json(id.number());
}

inline json write(ProgramFd descriptor, Style) {
    return json(descriptor.number());
}

inline json write(ProgramAddress address, Style) {
    return json(address.value());
}

template <class Place>
json write(const RunOf<Place>& run, Style style) {
    return json::array({write(run.at, style), run.length, run.offset, run.hash});
}

// A process of many GiB can have millions of runs: as one binary value they cost 32 bytes each and one copy.
template <class Place>
json write(const std::vector<RunOf<Place>>& runs, Style style) {
    if (style == Style::disk) {
        static_assert(sizeof(RunOf<Place>) == 32 && std::is_trivially_copyable_v<RunOf<Place>>);
        Bytes packed(runs.size() * sizeof(RunOf<Place>));
        if (!runs.empty()) std::memcpy(packed.data(), runs.data(), packed.size());
        return json::binary(std::move(packed));
    }
    json list = json::array();
    for (const auto& run : runs) list.push_back(write(run, style));
    return list;
}

inline json write(const std::pair<ProgramAddress, std::uint64_t>& pair, Style style) {
    return json::array({write(pair.first, style), pair.second});
}

template <class T>
json write(const T& value, Style style);

template <class V>
json write(const std::map<std::string, V>& map, Style style) {
    json object = json::object();
    for (const auto& [key, value] : map) object.emplace(key, write(value, style));
    return object;
}

// One of several structs: a map with one key, the struct's `kind`.
template <class... Each>
json write(const std::variant<Each...>& value, Style style) {
    json object = json::object();
    std::visit([&]<class T>(const T& one) { object.emplace(std::string(T::kind), write(one, style)); },
               value);
    return object;
}

template <class T>
json write(const T& value, Style style) {
    if constexpr (std::is_enum_v<T>) {
        return json(std::string(name_of(value)));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                         std::is_same_v<T, json>) {
        return json(value);
    } else if constexpr (std::is_array_v<T> || IsVector<T>::value) {
        json list = json::array();
        for (const auto& each : value) list.push_back(write(each, style));
        return list;
    } else {
        static_assert(Listed<const T>);
        json object = json::object();
        fields(value, [&]<class M>(std::string_view name, const M& member, auto...) {
            if constexpr (IsOptional<M>::value) {
                if (member) object.emplace(std::string(name), write(*member, style));
            } else {
                object.emplace(std::string(name), write(member, style));
            }
        });
        return object;
    }
}

// --- from JSON

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

template <Listed T>
void read(const json& from, T& to);
template <class T>
void read(const json& from, std::vector<T>& to);
template <class V>
void read(const json& from, std::map<std::string, V>& to);
template <class... Each>
void read(const json& from, std::variant<Each...>& to);

inline void read(const json& from, Bytes& to) {
    if (!from.is_binary()) wrong(fmt::format("is {}, not binary", from.type_name()));
    to = from.get_binary();
}

template <class T>
requires std::is_integral_v<T>
void read(const json& from, T& to) {
    if constexpr (std::is_same_v<T, bool>) {
        if (!from.is_boolean()) wrong(fmt::format("is {}, not a boolean", from.type_name()));
        to = from.get<bool>();
    } else {
        if (!from.is_number_integer()) wrong(fmt::format("is {}, not an integer", from.type_name()));
        const bool fits = from.is_number_unsigned() ? std::in_range<T>(from.get<std::uint64_t>())
                                                    : std::in_range<T>(from.get<std::int64_t>());
        if (!fits) wrong(fmt::format("is {}, out of range", from.dump()));
        to = from.get<T>();
    }
}

template <class Space>
void read(const json& from, Id<Space>& to) {
    std::int32_t number = 0;
    read(from, number);
    to = Id<Space>(number);
}

inline void read(const json& from, ProgramFd& to) {
    std::int32_t number = 0;
    read(from, number);
    to = ProgramFd(number);
}

inline void read(const json& from, ProgramAddress& to) {
    std::uint64_t value = 0;
    read(from, value);
    to = ProgramAddress(value);
}

inline void read(const json& from, double& to) {
    if (!from.is_number()) wrong(fmt::format("is {}, not a number", from.type_name()));
    to = from.get<double>();
}

// Handed on as it is.
inline void read(const json& from, json& to) {
    to = from;
}

inline void read(const json& from, std::string& to) {
    if (!from.is_string()) wrong(fmt::format("is {}, not a string", from.type_name()));
    to = from.get_ref<const std::string&>();
}

template <class E>
requires std::is_enum_v<E>
void read(const json& from, E& to) {
    std::string name;
    read(from, name);
    for (const auto& [each, known] : EnumNames<E>::table)
        if (known == name) {
            to = each;
            return;
        }
    wrong(fmt::format("is '{}', which this cairn doesn't know", name));
}

inline void need_array(const json& from, std::size_t at_least = 0) {
    if (!from.is_array()) wrong(fmt::format("is {}, not an array", from.type_name()));
    if (from.size() < at_least) wrong(fmt::format("has {} elements, not {}", from.size(), at_least));
}

inline void read(const json& from, std::pair<ProgramAddress, std::uint64_t>& to) {
    need_array(from, 2);
    read(from[0], to.first);
    read(from[1], to.second);
}

template <class Place>
void read(const json& from, RunOf<Place>& to) {
    need_array(from, 4);
    read(from[0], to.at);
    read(from[1], to.length);
    read(from[2], to.offset);
    read(from[3], to.hash);
}

template <class T, std::size_t N>
void read(const json& from, T (&to)[N]) {
    need_array(from, N);
    for (std::size_t i = 0; i < N; ++i) inside(i, [&] { read(from[i], to[i]); });
}

template <class T>
void read(const json& from, std::vector<T>& to) {
    if constexpr (IsRun<T>::value) {
        if (from.is_binary()) {
            const Bytes& packed = from.get_binary();
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
    for (const json& each : from) inside(to.size(), [&] { read(each, to.emplace_back()); });
}

inline void need_map(const json& from) {
    if (!from.is_object()) wrong(fmt::format("is {}, not a map", from.type_name()));
}

template <class V>
void read(const json& from, std::map<std::string, V>& to) {
    need_map(from);
    to.clear();
    for (const auto& [key, value] : from.items())
        inside(std::string_view(key), [&] { read(value, to[key]); });
}

template <class... Each>
void read(const json& from, std::variant<Each...>& to) {
    need_map(from);
    if (from.size() != 1) wrong(fmt::format("has {} keys, not one", from.size()));
    const std::string& name = from.begin().key();
    const auto read_if = [&]<class T>(std::type_identity<T>) {
        if (name != T::kind) return false;
        inside(std::string_view(name), [&] { read(*from.begin(), to.template emplace<T>()); });
        return true;
    };
    if (!(read_if(std::type_identity<Each>()) || ...))
        wrong(fmt::format("is '{}', which this cairn doesn't know", name));
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
template <Listed T>
void read(const json& from, T& to) {
    need_map(from);
    std::size_t there = 0;
    fields(to, [&]<class M>(std::string_view name, M& member, const auto&... mark) {
        auto found = from.find(name);
        if (found != from.end()) ++there;
        if (Open<T> && found != from.end() && found->is_null()) found = from.end();
        inside(name, [&] {
            if constexpr (IsOptional<M>::value) {
                if (found == from.end())
                    member.reset();
                else
                    read(*found, member.emplace());
            } else {
                if (found != from.end())
                    read(*found, member);
                else if (!Lenient<T> && !(MayBeMissing<std::remove_cvref_t<decltype(mark)>> || ...))
                    wrong("is missing");
            }
            (check(member, mark), ...);
        });
    });
    if (there == from.size() || Lenient<T> || Open<T>) return;
    std::vector<std::string_view> known;
    fields(to, [&](std::string_view name, const auto&, const auto&...) { known.push_back(name); });
    for (const auto& [name, value] : from.items())
        if (std::ranges::find(known, name) == known.end())
            inside(std::string_view(name), [] { wrong("is a field that this cairn doesn't know"); });
}

template <class T>
Result<T> from_json(const json& value, std::string_view what) {
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
    auto root = TRY(parse(data, what));
    return convert::from_json<T>(root, what);  // nlohmann's of this name would be considered as well
}

}  // namespace cairn::schema::convert
