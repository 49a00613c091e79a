// Numbers in piggybacks and stored states, without allocation. Little endian, as the machine is.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace cairn::causality {

inline constexpr std::size_t most_varint = 5;  // bytes of a 32-bit number

class ByteWriter {
  public:
    explicit ByteWriter(std::span<std::uint8_t> into) : begin_(into.data()), at_(into.data()) {}
    void varint(std::uint32_t value) {
        for (; value >= 0x80; value >>= 7) *at_++ = static_cast<std::uint8_t>(value | 0x80);
        *at_++ = static_cast<std::uint8_t>(value);
    }
    template <class T>
    void raw(const T* data, std::size_t count) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (count != 0) std::memcpy(at_, data, count * sizeof(T));
        at_ += count * sizeof(T);
    }
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(at_ - begin_); }

  private:
    std::uint8_t* begin_;
    std::uint8_t* at_;
};

// After a failure every number is 0.
class ByteTaker {
  public:
    explicit ByteTaker(std::span<const std::uint8_t> from)
        : at_(from.data()), end_(from.data() + from.size()) {}
    std::uint32_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 35; shift += 7) {
            if (at_ == end_) break;
            const std::uint8_t each = *at_++;
            value |= static_cast<std::uint64_t>(each & 0x7fU) << shift;
            if ((each & 0x80U) != 0) continue;
            if (value > 0xffffffffU) break;
            return static_cast<std::uint32_t>(value);
        }
        ok_ = false;
        return 0;
    }
    template <class T>
    bool raw(T* into, std::size_t count) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (static_cast<std::size_t>(end_ - at_) < count * sizeof(T)) return ok_ = false;
        if (count != 0) std::memcpy(into, at_, count * sizeof(T));
        at_ += count * sizeof(T);
        return true;
    }
    void fail() { ok_ = false; }
    [[nodiscard]] bool ok() const { return ok_; }
    [[nodiscard]] bool done() const { return ok_ && at_ == end_; }

  private:
    const std::uint8_t* at_;
    const std::uint8_t* end_;
    bool ok_ = true;
};

}  // namespace cairn::causality
