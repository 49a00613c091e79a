// The map of virtual ids: who goes by which number.
#include <gtest/gtest.h>

#include <memory>

#include "common/region_ops.h"

namespace cairn {
namespace {

TEST(IdMap, AStrangerIsNeverTakenForAMember) {
    const auto ids = std::make_unique<IdMap>();
    EXPECT_EQ(to_virtual(*ids, 100), 100);
    ASSERT_TRUE(insert_id(*ids, 100, 200));  // the program's 100 is the kernel's 200
    EXPECT_EQ(to_virtual(*ids, 200), 100);
    EXPECT_EQ(to_virtual(*ids, 100), 200);  // of nobody in the program
    ASSERT_TRUE(insert_id(*ids, 200, 300));
    EXPECT_EQ(to_virtual(*ids, 100), 300);
    EXPECT_EQ(to_virtual(*ids, 400), 400);
}

TEST(IdMap, ANewcomerIsCalledTheSameBeforeItHasItsName) {
    const auto ids = std::make_unique<IdMap>();
    ASSERT_TRUE(insert_id(*ids, 100, 200));
    const auto before = to_virtual(*ids, 100);
    EXPECT_EQ(name_newcomer(*ids, 100), before);
    EXPECT_EQ(to_virtual(*ids, 100), before);
    EXPECT_EQ(to_real(*ids, before), 100);
}

}  // namespace
}  // namespace cairn
