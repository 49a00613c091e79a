// The map of virtual ids: who goes by which number.
#include <gtest/gtest.h>

#include <memory>

#include "common/region_ops.h"

namespace cairn {
namespace {

TEST(IdMap, AStrangerIsNeverTakenForAMember) {
    const auto ids = std::make_unique<IdMap>();
    EXPECT_EQ(program_id(*ids, KernelId(100)), ProgramId(100));
    ASSERT_TRUE(insert_id(*ids, ProgramId(100), KernelId(200)));  // the program's 100 is the kernel's 200
    EXPECT_EQ(program_id(*ids, KernelId(200)), ProgramId(100));
    EXPECT_EQ(program_id(*ids, KernelId(100)), ProgramId(200));  // of nobody in the program
    ASSERT_TRUE(insert_id(*ids, ProgramId(200), KernelId(300)));
    EXPECT_EQ(program_id(*ids, KernelId(100)), ProgramId(300));
    EXPECT_EQ(program_id(*ids, KernelId(400)), ProgramId(400));
}

TEST(IdMap, ANewcomerIsCalledTheSameBeforeItHasItsName) {
    const auto ids = std::make_unique<IdMap>();
    ASSERT_TRUE(insert_id(*ids, ProgramId(100), KernelId(200)));
    const auto before = program_id(*ids, KernelId(100));
    EXPECT_EQ(name_newcomer(*ids, KernelId(100)), before);
    EXPECT_EQ(program_id(*ids, KernelId(100)), before);
    EXPECT_EQ(kernel_id(*ids, before), KernelId(100));
}

}  // namespace
}  // namespace cairn
