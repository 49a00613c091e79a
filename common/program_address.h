// An address in the memory of a program that is checkpointed or rebuilt: nothing that this process could
// follow.
//
// A length, an offset in a file and an address of our own memory are 64 bits as well; so that none of them is
// taken for it, it becomes none of them by itself. Address and length make an address, and two addresses a
// length. value() is for whoever hands it to the kernel, to registers, or to what runs in the program: the
// structs that hijack library, agent and restorer share with us (common/agent.h, common/region.h,
// restart/restorer/params.h) have plain numbers, because there they are our own memory's.
//
// Messages show the number (common/program_address_text.h). Needs no allocation and no libstdc++ symbols.
// Trivially copyable, and 8 bytes.
#pragma once

#include <compare>
#include <cstdint>

namespace cairn {

class ProgramAddress {
  public:
    constexpr ProgramAddress() = default;
    constexpr explicit ProgramAddress(std::uint64_t value) : value_(value) {}

    [[nodiscard]] constexpr std::uint64_t value() const { return value_; }
    // 0 says that there is none.
    [[nodiscard]] constexpr bool known() const { return value_ != 0; }

    constexpr ProgramAddress& operator+=(std::uint64_t length) {
        value_ += length;
        return *this;
    }

    friend constexpr ProgramAddress operator+(ProgramAddress address, std::uint64_t length) {
        return ProgramAddress(address.value_ + length);
    }
    friend constexpr ProgramAddress operator-(ProgramAddress address, std::uint64_t length) {
        return ProgramAddress(address.value_ - length);
    }
    friend constexpr std::uint64_t operator-(ProgramAddress to, ProgramAddress from) {
        return to.value_ - from.value_;
    }
    // How far it is behind a multiple of `length`.
    friend constexpr std::uint64_t operator%(ProgramAddress address, std::uint64_t length) {
        return address.value_ % length;
    }
    friend constexpr auto operator<=>(const ProgramAddress&, const ProgramAddress&) = default;

  private:
    std::uint64_t value_ = 0;
};

struct ProgramRange {
    ProgramAddress start{}, end{};  // end: the first one behind it

    [[nodiscard]] constexpr std::uint64_t length() const { return end - start; }
    [[nodiscard]] constexpr bool has(ProgramAddress address) const {
        return start <= address && address < end;
    }
    [[nodiscard]] constexpr bool overlaps(const ProgramRange& other) const {
        return start < other.end && other.start < end;
    }
    friend constexpr auto operator<=>(const ProgramRange&, const ProgramRange&) = default;
};

}  // namespace cairn
