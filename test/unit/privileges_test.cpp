// What becomes of a bounding set at a restart.
#include "common/privileges.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Privileges, ABoundingSetIsLoweredByWhoMay) {
    constexpr std::uint64_t setpcap = 1U << 8, of_image = 0x5, ours = 0xff;
    schema::Process process;
    process.cap_bounding = of_image;
    Privileges own;
    own.bounding = ours;
    EXPECT_EQ(own.bounding_of(process), ours);
    process.namespaces.emplace();  // in which it has all rights for a moment
    EXPECT_EQ(own.bounding_of(process), of_image);
    process.namespaces.reset();
    own.effective = setpcap;
    EXPECT_EQ(own.bounding_of(process), of_image);
}

}  // namespace
}  // namespace cairn
