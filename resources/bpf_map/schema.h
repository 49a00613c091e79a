// What an image says of a BPF map (bpf(2), BPF_MAP_CREATE).
#pragma once

#include <string>

#include "common/schema/field.h"

namespace cairn::schema {

enum class BpfMapType { array, hash };

template <>
struct EnumNames<BpfMapType> {
    static constexpr auto table = std::to_array<std::pair<BpfMapType, std::string_view>>(
        {{BpfMapType::array, "array"}, {BpfMapType::hash, "hash"}});
};

struct BpfMap {
    static constexpr std::string_view kind = "bpf_map";
    std::int64_t map = 0;  // the same for all descriptions of one map
    BpfMapType type = BpfMapType::array;
    std::uint32_t key_size = 0;    // bytes
    std::uint32_t value_size = 0;  // bytes
    std::uint32_t max_entries = 0;
    std::uint32_t map_flags = 0;  // BPF_F_*, without those of the description
    std::string name;
    Bytes elements;  // key and value, one after the other; of an array those that aren't zero
};

template <Struct<BpfMap> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(map);
    CAIRN_FIELD(type);
    CAIRN_FIELD_WITHIN(key_size, 1, 1 << 29);
    CAIRN_FIELD_WITHIN(value_size, 1, 1 << 29);
    CAIRN_FIELD_WITHIN(max_entries, 1, 0xffffffff);
    CAIRN_FIELD(map_flags);
    CAIRN_FIELD(name);
    CAIRN_FIELD(elements);
}

}  // namespace cairn::schema
