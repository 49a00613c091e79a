// MessagePack (its specification: msgpack.org) without a document in between: what images are written and
// read by. A restart reads and a checkpoint writes one of tens of KiB for each process, and with a document
// the one takes three, the other ten times as long (docs/decisions/0003-libraries.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"

namespace cairn::schema {

// Writes one value behind the other. An array or a map is followed by as many values, or keys and values, as
// were announced.
class Packer {
  public:
    void boolean(bool value);
    void integer(std::int64_t value);
    void integer(std::uint64_t value);
    void number(double value);
    void string(std::string_view value);
    void binary(std::span<const std::uint8_t> value);
    void array(std::size_t size);
    void map(std::size_t size);
    [[nodiscard]] std::vector<std::uint8_t> take() { return std::move(bytes_); }

  private:
    template <class Number>
    void head(std::uint8_t first, Number number);
    void append(const void* data, std::size_t size);

    std::vector<std::uint8_t> bytes_;
};

// A value in bytes that outlive it.
class Packed {
  public:
    enum class Kind { null, boolean, integer, number, string, binary, array, map };

    // One that fills `data`. Errors: ExitCode::damaged, with `what` in front: it isn't MessagePack, is cut
    // off, has something behind it, nests deeper than any schema, has a key that is no string, or an
    // extension type.
    [[nodiscard]] static Result<Packed> of(std::span<const std::uint8_t> data, std::string_view what);

    [[nodiscard]] Kind kind() const { return head_.kind; }
    // As nlohmann's library calls them: "number" for an integer as well, "object" for a map.
    [[nodiscard]] const char* type_name() const;

    // Each only of a value of this kind.
    [[nodiscard]] bool as_boolean() const { return head_.number != 0; }
    [[nodiscard]] bool is_negative() const { return head_.negative; }
    [[nodiscard]] std::uint64_t as_unsigned() const { return head_.number; }
    [[nodiscard]] std::int64_t as_signed() const { return static_cast<std::int64_t>(head_.number); }
    [[nodiscard]] double as_number() const;
    [[nodiscard]] std::string_view as_string() const {
        return {reinterpret_cast<const char*>(at_ + head_.size), head_.number};
    }
    [[nodiscard]] std::span<const std::uint8_t> as_binary() const { return {at_ + head_.size, head_.number}; }
    // Of an array or a map: how many there are.
    [[nodiscard]] std::size_t size() const { return head_.number; }
    [[nodiscard]] std::vector<Packed> elements() const;
    [[nodiscard]] std::vector<std::pair<std::string_view, Packed>> members() const;

  private:
    // What stands in front of a value's contents, if it has any.
    struct Head {
        Kind kind = Kind::null;
        bool negative = false;
        bool is_float = false;     // a number of 4 bytes
        std::uint64_t number = 0;  // the value, or its size: bytes of a string, elements of an array, ...
        std::size_t size = 1;      // bytes of the head
    };
    // Without looking further than `end`. Kind::null with size 0: it is cut off, or no head of ours.
    static Head head_at(const std::uint8_t* at, const std::uint8_t* end);
    // Bytes behind the head that aren't values of their own.
    static std::uint64_t contents(const Head& head);

    // Of bytes that were looked through: the value that begins there.
    Packed(const std::uint8_t* at, const std::uint8_t* end) : at_(at), end_(end), head_(head_at(at, end)) {}
    // The byte behind it.
    [[nodiscard]] const std::uint8_t* behind() const;

    const std::uint8_t *at_, *end_;
    Head head_;
};

}  // namespace cairn::schema
