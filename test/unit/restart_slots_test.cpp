// The places that a restart has taken in the session's table: which of them it gives back when it fails.
#include <gtest/gtest.h>

#include <memory>

#include "restart/slots.h"

namespace cairn::restart {
namespace {

class RestartSlots : public ::testing::Test {
  protected:
    RestartSlots() {
        EXPECT_TRUE(slots.claim(*region, ProgramId(100), ProgramAddress(0x1000)));
        EXPECT_TRUE(slots.claim(*region, ProgramId(101), ProgramAddress(0x1000)));
    }
    [[nodiscard]] Slot& slot_of(int process) { return region->slots[slots.of(ProgramId(process))]; }

    std::unique_ptr<Region> region = std::make_unique<Region>();
    Slots slots;
};

TEST_F(RestartSlots, WhatNobodyWasToldOfIsGivenBack) {
    slots.release();
    EXPECT_EQ(slot_of(100).state.load(), SlotState::free);
    EXPECT_EQ(slot_of(101).state.load(), SlotState::free);
}

// The coordinator has made a member of it, as Registry::restore() does.
TEST_F(RestartSlots, TheCoordinatorsAreItsOwn) {
    slot_of(100).pid.store(4321);
    slot_of(100).state.store(SlotState::running);
    slots.release();
    EXPECT_EQ(slot_of(100).pid.load(), 4321);
    EXPECT_EQ(slot_of(100).state.load(), SlotState::running);
    EXPECT_EQ(slot_of(101).state.load(), SlotState::free);
}

// The process was killed right behind the barrier, and a program that was launched then is in its place.
TEST_F(RestartSlots, WhoHasThePlaceSinceKeepsIt) {
    const auto index = slots.of(ProgramId(100));
    release_slot(*region, index);
    ASSERT_EQ(claim_slot(*region, KernelId(7)), index);
    slots.release();
    EXPECT_EQ(slot_of(100).state.load(), SlotState::birth);
    EXPECT_EQ(slot_of(100).parent_pid.load(), 7);
}

}  // namespace
}  // namespace cairn::restart
