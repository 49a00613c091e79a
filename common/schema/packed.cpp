#include "common/schema/packed.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>

namespace cairn::schema {
namespace {

// The first bytes of values (msgpack.org, "Formats").
enum First : std::uint8_t {
    first_fixmap = 0x80,
    first_fixarray = 0x90,
    first_fixstr = 0xa0,
    first_nil = 0xc0,
    first_false = 0xc2,
    first_true = 0xc3,
    first_bin8 = 0xc4,
    first_bin16 = 0xc5,
    first_bin32 = 0xc6,
    first_float32 = 0xca,
    first_float64 = 0xcb,
    first_uint8 = 0xcc,
    first_uint16 = 0xcd,
    first_uint32 = 0xce,
    first_uint64 = 0xcf,
    first_int8 = 0xd0,
    first_int16 = 0xd1,
    first_int32 = 0xd2,
    first_int64 = 0xd3,
    first_str8 = 0xd9,
    first_str16 = 0xda,
    first_str32 = 0xdb,
    first_array16 = 0xdc,
    first_array32 = 0xdd,
    first_map16 = 0xde,
    first_map32 = 0xdf,
    first_negative = 0xe0,
};

// Those with a number behind the first byte: the value, or its size.
struct Format {
    std::uint8_t first;
    Packed::Kind kind;
    unsigned bytes;
    bool has_sign = false;
};
constexpr std::array formats = {
    Format{first_bin8, Packed::Kind::binary, 1},         Format{first_bin16, Packed::Kind::binary, 2},
    Format{first_bin32, Packed::Kind::binary, 4},        Format{first_float32, Packed::Kind::number, 4},
    Format{first_float64, Packed::Kind::number, 8},      Format{first_uint8, Packed::Kind::integer, 1},
    Format{first_uint16, Packed::Kind::integer, 2},      Format{first_uint32, Packed::Kind::integer, 4},
    Format{first_uint64, Packed::Kind::integer, 8},      Format{first_int8, Packed::Kind::integer, 1, true},
    Format{first_int16, Packed::Kind::integer, 2, true}, Format{first_int32, Packed::Kind::integer, 4, true},
    Format{first_int64, Packed::Kind::integer, 8, true}, Format{first_str8, Packed::Kind::string, 1},
    Format{first_str16, Packed::Kind::string, 2},        Format{first_str32, Packed::Kind::string, 4},
    Format{first_array16, Packed::Kind::array, 2},       Format{first_array32, Packed::Kind::array, 4},
    Format{first_map16, Packed::Kind::map, 2},           Format{first_map32, Packed::Kind::map, 4}};

// Numbers are big-endian there.
template <std::unsigned_integral Number>
Number turned(Number number) {
    static_assert(std::endian::native == std::endian::little);
    return std::byteswap(number);
}

}  // namespace

void Packer::append(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
}

template <class Number>
void Packer::head(std::uint8_t first, Number number) {
    std::array<std::uint8_t, 1 + sizeof number> all{first};
    const auto there = turned(number);
    std::memcpy(&all[1], &there, sizeof there);
    append(all.data(), all.size());
}

void Packer::boolean(bool value) {
    bytes_.push_back(value ? first_true : first_false);
}

void Packer::integer(std::uint64_t value) {
    if (value < 0x80)
        bytes_.push_back(static_cast<std::uint8_t>(value));
    else if (value <= 0xff)
        head(first_uint8, static_cast<std::uint8_t>(value));
    else if (value <= 0xffff)
        head(first_uint16, static_cast<std::uint16_t>(value));
    else if (value <= 0xffffffff)
        head(first_uint32, static_cast<std::uint32_t>(value));
    else
        head(first_uint64, value);
}

void Packer::integer(std::int64_t value) {
    if (value >= 0)
        integer(static_cast<std::uint64_t>(value));
    else if (value >= -32)
        bytes_.push_back(static_cast<std::uint8_t>(value));
    else if (value >= INT8_MIN)
        head(first_int8, static_cast<std::uint8_t>(value));
    else if (value >= INT16_MIN)
        head(first_int16, static_cast<std::uint16_t>(value));
    else if (value >= INT32_MIN)
        head(first_int32, static_cast<std::uint32_t>(value));
    else
        head(first_int64, static_cast<std::uint64_t>(value));
}

void Packer::number(double value) {
    head(first_float64, std::bit_cast<std::uint64_t>(value));
}

void Packer::string(std::string_view value) {
    if (value.size() < 32)
        bytes_.push_back(static_cast<std::uint8_t>(first_fixstr | value.size()));
    else if (value.size() <= 0xff)
        head(first_str8, static_cast<std::uint8_t>(value.size()));
    else if (value.size() <= 0xffff)
        head(first_str16, static_cast<std::uint16_t>(value.size()));
    else
        head(first_str32, static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
}

void Packer::binary(std::span<const std::uint8_t> value) {
    if (value.size() <= 0xff)
        head(first_bin8, static_cast<std::uint8_t>(value.size()));
    else if (value.size() <= 0xffff)
        head(first_bin16, static_cast<std::uint16_t>(value.size()));
    else
        head(first_bin32, static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
}

void Packer::array(std::size_t size) {
    if (size < 16)
        bytes_.push_back(static_cast<std::uint8_t>(first_fixarray | size));
    else if (size <= 0xffff)
        head(first_array16, static_cast<std::uint16_t>(size));
    else
        head(first_array32, static_cast<std::uint32_t>(size));
}

void Packer::map(std::size_t size) {
    if (size < 16)
        bytes_.push_back(static_cast<std::uint8_t>(first_fixmap | size));
    else if (size <= 0xffff)
        head(first_map16, static_cast<std::uint16_t>(size));
    else
        head(first_map32, static_cast<std::uint32_t>(size));
}

Packed::Head Packed::head_at(const std::uint8_t* at, const std::uint8_t* end) {
    constexpr Head none{Kind::null, false, false, 0, 0};
    if (at == end) return none;
    const std::uint8_t first = *at;
    // Small values and sizes stand in the first byte itself.
    if (first < first_fixmap) return {Kind::integer, false, false, first, 1};
    if (first < first_fixarray) return {Kind::map, false, false, std::uint64_t{first} & 0x0f, 1};
    if (first < first_fixstr) return {Kind::array, false, false, std::uint64_t{first} & 0x0f, 1};
    if (first < first_nil) return {Kind::string, false, false, std::uint64_t{first} & 0x1f, 1};
    if (first >= first_negative) return {Kind::integer, true, false, ~std::uint64_t{0xff} | first, 1};
    if (first == first_nil) return {Kind::null, false, false, 0, 1};
    if (first == first_false || first == first_true)
        return {Kind::boolean, false, false, std::uint64_t{first} & 1, 1};
    const auto format = std::ranges::find(formats, first, &Format::first);
    if (format == formats.end() || static_cast<std::size_t>(end - at) < 1U + format->bytes) return none;
    std::uint64_t number = 0;
    for (unsigned i = 1; i <= format->bytes; ++i) number = number << 8 | at[i];
    const unsigned spare = 64 - 8 * format->bytes;
    const bool negative = format->has_sign && (number << spare) >> 63 != 0;
    if (negative) number |= ~std::uint64_t{0} << (63 - spare);
    return {format->kind, negative, first == first_float32, number, 1U + format->bytes};
}

std::uint64_t Packed::contents(const Head& head) {
    return head.kind == Kind::string || head.kind == Kind::binary ? head.number : 0;
}

// Every value is looked at once, and none but those that are there: a length that is stated is not believed.
Result<Packed> Packed::of(std::span<const std::uint8_t> data, std::string_view what) {
    constexpr std::size_t deepest = 16;
    const auto* const begin = data.data();
    const auto* const end = begin + data.size();
    const auto damaged = [&](const std::uint8_t* at) {
        return fail_code(ExitCode::damaged, "{} is not MessagePack: wrong at byte {}", what, at - begin + 1);
    };
    struct Open {
        std::uint64_t left = 0;  // values that are still to come, keys included
        bool is_map = false;
    };
    std::array<Open, deepest + 1> open{Open{1, false}};
    std::size_t depth = 0;
    const auto* at = begin;
    for (;;) {
        while (depth > 0 && open.at(depth).left == 0) --depth;
        auto& around = open.at(depth);
        if (around.left == 0) break;
        const auto head = head_at(at, end);
        if (head.size == 0 || static_cast<std::uint64_t>(end - at) - head.size < contents(head))
            return damaged(at);
        const bool is_key = around.is_map && around.left % 2 == 0;
        if (is_key && head.kind != Kind::string) return damaged(at);
        --around.left;
        at += head.size + contents(head);
        const bool is_map = head.kind == Kind::map;
        if (!is_map && head.kind != Kind::array) continue;
        if (depth == deepest) return fail_code(ExitCode::damaged, "{} is nested too deeply", what);
        open.at(++depth) = {is_map ? 2 * head.number : head.number, is_map};
    }
    if (at != end) return damaged(at);
    return Packed(begin, end);
}

const std::uint8_t* Packed::behind() const {
    const auto* at = at_;
    for (std::uint64_t left = 1; left > 0; --left) {
        const auto head = head_at(at, end_);
        at += head.size + contents(head);
        if (head.kind == Kind::array) left += head.number;
        if (head.kind == Kind::map) left += 2 * head.number;
    }
    return at;
}

const char* Packed::type_name() const {
    switch (kind()) {
        case Kind::null:
            return "null";
        case Kind::boolean:
            return "boolean";
        case Kind::integer:
        case Kind::number:
            return "number";
        case Kind::string:
            return "string";
        case Kind::binary:
            return "binary";
        case Kind::array:
            return "array";
        case Kind::map:
            return "object";
    }
    return "";
}

double Packed::as_number() const {
    if (kind() == Kind::integer)
        return is_negative() ? static_cast<double>(as_signed()) : static_cast<double>(as_unsigned());
    if (head_.is_float) return std::bit_cast<float>(static_cast<std::uint32_t>(head_.number));
    return std::bit_cast<double>(head_.number);
}

std::vector<Packed> Packed::elements() const {
    std::vector<Packed> all;
    all.reserve(size());
    const auto* at = at_ + head_.size;
    while (all.size() < size()) {
        all.push_back(Packed(at, end_));
        at = all.back().behind();
    }
    return all;
}

std::vector<std::pair<std::string_view, Packed>> Packed::members() const {
    std::vector<std::pair<std::string_view, Packed>> all;
    all.reserve(size());
    const auto* at = at_ + head_.size;
    while (all.size() < size()) {
        const Packed key(at, end_);
        all.emplace_back(key.as_string(), Packed(key.behind(), end_));
        at = all.back().second.behind();
    }
    return all;
}

}  // namespace cairn::schema
