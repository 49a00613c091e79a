// What an address of a program's becomes, and what becomes one.
#include "common/program_address.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "common/program_address_text.h"

namespace cairn {
namespace {

static_assert(sizeof(ProgramAddress) == 8 && std::is_trivially_copyable_v<ProgramAddress>);
static_assert(!std::is_convertible_v<std::uint64_t, ProgramAddress>);
static_assert(!std::is_convertible_v<ProgramAddress, std::uint64_t>);
static_assert(!std::is_convertible_v<void*, ProgramAddress>);
template <class A, class B>
concept Summed = requires(A a, B b) {
    a + b;
};
static_assert(Summed<ProgramAddress, std::uint64_t> && !Summed<ProgramAddress, ProgramAddress>);
template <class A, class B>
concept Compared = requires(A a, B b) {
    a < b;
};
static_assert(Compared<ProgramAddress, ProgramAddress> && !Compared<ProgramAddress, std::uint64_t>);

TEST(ProgramAddress, AddressesAndLengths) {
    constexpr ProgramAddress at(0x7000);
    EXPECT_EQ(at + 0x1000, ProgramAddress(0x8000));
    EXPECT_EQ(at - 0x1000, ProgramAddress(0x6000));
    EXPECT_EQ((at + 0x1000) - at, 0x1000u);
    EXPECT_EQ((at + 5) % 0x1000, 5u);
    EXPECT_FALSE(ProgramAddress().known());
    EXPECT_EQ(fmt::format("{:#x} {:012x}", at, at), "0x7000 000000007000");
}

TEST(ProgramAddress, RangesEndBeforeTheirEnd) {
    constexpr ProgramRange range{ProgramAddress(0x1000), ProgramAddress(0x3000)};
    EXPECT_EQ(range.length(), 0x2000u);
    EXPECT_TRUE(range.has(ProgramAddress(0x1000)));
    EXPECT_FALSE(range.has(ProgramAddress(0x3000)));
    EXPECT_TRUE(range.overlaps({ProgramAddress(0x2fff), ProgramAddress(0x4000)}));
    EXPECT_FALSE(range.overlaps({ProgramAddress(0x3000), ProgramAddress(0x4000)}));
    EXPECT_FALSE(range.overlaps({}));
}

}  // namespace
}  // namespace cairn
