// How schema structs become JSON values and MessagePack, by the description of their fields. Included by
// common/schema/convert.h only.
#pragma once

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/program_address.h"
#include "common/program_fd.h"
#include "common/schema/packed.h"
#include "common/schema/shapes.h"

namespace cairn::schema::convert {

using nlohmann::json;

// To JSON.

template <class T>
json write(const T& value);

inline json write(const Bytes& bytes) {
    return json::binary(bytes);
}

template <class Space>
json write(const Id<Space>& id) {
    return json(id.number());
}

inline json write(ProgramFd descriptor) {
    return json(descriptor.number());
}

inline json write(ProgramAddress address) {
    return json(address.value());
}

template <class Place>
json write(const RunOf<Place>& run) {
    return json::array({write(run.at), run.length, run.offset, run.hash});
}

inline json write(const std::pair<ProgramAddress, std::uint64_t>& pair) {
    return json::array({write(pair.first), pair.second});
}

template <class V>
json write(const std::map<std::string, V>& map) {
    json object = json::object();
    for (const auto& [key, value] : map) object.emplace(key, write(value));
    return object;
}

// One of several structs: a map with one key, the struct's `kind`.
template <class... Each>
json write(const std::variant<Each...>& value) {
    json object = json::object();
    std::visit([&]<class T>(const T& one) { object.emplace(std::string(T::kind), write(one)); }, value);
    return object;
}

template <class T>
json write(const T& value) {
    if constexpr (std::is_enum_v<T>) {
        return json(std::string(name_of(value)));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                         std::is_same_v<T, json>) {
        return json(value);
    } else if constexpr (std::is_array_v<T> || IsVector<T>::value) {
        json list = json::array();
        for (const auto& each : value) list.push_back(write(each));
        return list;
    } else {
        static_assert(Listed<const T>);
        json object = json::object();
        fields(value, [&]<class M>(std::string_view name, const M& member, auto...) {
            if constexpr (IsOptional<M>::value) {
                if (member) object.emplace(std::string(name), write(*member));
            } else {
                object.emplace(std::string(name), write(member));
            }
        });
        return object;
    }
}

// To MessagePack.

template <class T>
void pack(Packer& to, const T& value);

inline void pack(Packer& to, const Bytes& bytes) {
    to.binary(bytes);
}

template <class Space>
void pack(Packer& to, const Id<Space>& id) {
    to.integer(std::int64_t{id.number()});
}

inline void pack(Packer& to, ProgramFd descriptor) {
    to.integer(std::int64_t{descriptor.number()});
}

inline void pack(Packer& to, ProgramAddress address) {
    to.integer(address.value());
}

// A process of many GiB can have millions of runs: as one binary value they cost 32 bytes each and one copy.
template <class Place>
void pack(Packer& to, const std::vector<RunOf<Place>>& runs) {
    static_assert(sizeof(RunOf<Place>) == 32 && std::is_trivially_copyable_v<RunOf<Place>>);
    to.binary({reinterpret_cast<const std::uint8_t*>(runs.data()), runs.size() * sizeof(RunOf<Place>)});
}

inline void pack(Packer& to, const std::pair<ProgramAddress, std::uint64_t>& pair) {
    to.array(2);
    pack(to, pair.first);
    to.integer(pair.second);
}

template <class V>
void pack(Packer& to, const std::map<std::string, V>& map) {
    to.map(map.size());
    for (const auto& [key, value] : map) {
        to.string(key);
        pack(to, value);
    }
}

template <class... Each>
void pack(Packer& to, const std::variant<Each...>& value) {
    to.map(1);
    std::visit(
        [&]<class T>(const T& one) {
            to.string(T::kind);
            pack(to, one);
        },
        value);
}

template <class T>
void pack_number(Packer& to, T value) {
    if constexpr (std::is_same_v<T, bool>)
        to.boolean(value);
    else if constexpr (std::is_floating_point_v<T>)
        to.number(value);
    else if constexpr (std::is_signed_v<T>)
        to.integer(std::int64_t{value});
    else
        to.integer(std::uint64_t{value});
}

template <class T>
void pack_fields(Packer& to, const T& value) {
    std::size_t there = 0;
    fields(value, [&]<class M>(std::string_view, const M& member, auto...) {
        if constexpr (IsOptional<M>::value)
            there += member ? 1U : 0U;
        else
            ++there;
    });
    to.map(there);
    fields(value, [&]<class M>(std::string_view name, const M& member, auto...) {
        if constexpr (IsOptional<M>::value) {
            if (!member) return;
            to.string(name);
            pack(to, *member);
        } else {
            to.string(name);
            pack(to, member);
        }
    });
}

template <class T>
void pack(Packer& to, const T& value) {
    if constexpr (std::is_enum_v<T>) {
        to.string(name_of(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
        pack_number(to, value);
    } else if constexpr (std::is_same_v<T, std::string>) {
        to.string(value);
    } else if constexpr (std::is_array_v<T> || IsVector<T>::value) {
        to.array(std::size(value));
        for (const auto& each : value) pack(to, each);
    } else {
        static_assert(Listed<const T>);
        pack_fields(to, value);
    }
}

template <class T>
Bytes encode(const T& value) {
    Packer packer;
    pack(packer, value);
    return packer.take();
}

}  // namespace cairn::schema::convert
