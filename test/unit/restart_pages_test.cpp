// What is missing in lazy memory, and what changes make of it (restart/pages/changes.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "restart/pages/changes.h"

namespace cairn::restart::pages {
namespace {

constexpr std::uint64_t page = 4096;

constexpr ProgramAddress at(std::uint64_t number) {
    return ProgramAddress(number * page);
}

Missing one(std::uint64_t start, std::uint64_t end, std::uint32_t run = 0) {
    Missing missing;
    missing.add(at(start), {at(end), run, 0});
    return missing;
}

Event unmap(std::uint64_t from, std::uint64_t to) {
    return {.kind = Change::unmap, .from = at(from), .length = (to - from) * page};
}
Event drop(std::uint64_t from, std::uint64_t to) {
    return {.kind = Change::remove, .from = at(from), .length = (to - from) * page};
}
Event move(std::uint64_t from, std::uint64_t to, std::uint64_t length) {
    return {.kind = Change::remap, .from = at(from), .length = length * page, .to = at(to)};
}
Event birth() {
    return {.kind = Change::fork, .child = 1};
}

// What the kernel would say: these pages are registered in the child.
Registered only(std::set<std::uint64_t> pages) {
    return
        [pages = std::move(pages)](ProgramAddress address) { return pages.contains(address.value() / page); };
}

TEST(PagesMissing, ErasesTheMiddleOfAPiece) {
    auto missing = one(10, 20);
    missing.erase(at(12), at(15));
    EXPECT_FALSE(missing.find(at(12)));
    ASSERT_TRUE(missing.find(at(15)));
    EXPECT_EQ(missing.find(at(15))->second.skip, 5 * page);
    EXPECT_EQ(missing.bytes(), 7 * page);
    EXPECT_EQ(missing.next(at(13))->first, at(15));
    EXPECT_EQ(missing.next(at(30))->first, at(10));
}

TEST(PagesChanges, MovesPartsAndOverwrites) {
    auto missing = one(10, 20, 1);
    missing.add(at(40), {at(44), 2, 0});
    missing = *apply_all(missing, std::vector{move(12, 42, 4), unmap(12, 16)});
    EXPECT_EQ(missing.find(at(42))->second, (Piece{at(46), 1, 2 * page}));
    EXPECT_EQ(missing.find(at(41))->second.run, 2u);
    EXPECT_FALSE(missing.find(at(12)));
    EXPECT_TRUE(missing.find(at(16)));
    EXPECT_EQ(missing.bytes(), 12 * page);
}

TEST(PagesChanges, AMoveAndTheUnmappingOfItsOldPlaceAreOne) {
    for (const auto& batch :
         {std::vector{move(10, 20, 4), unmap(10, 14)}, std::vector{unmap(10, 14), move(10, 20, 4)}})
        EXPECT_EQ(apply_all(one(10, 14), batch), one(20, 24));
}

// One thread unmaps 20-24, another moves 10-14 there, a third 30-34 to 10: told of in any order.
TEST(PagesChanges, EachMovesWhatWasThereBefore) {
    Missing before = one(10, 14, 1);
    before.add(at(20), {at(24), 2, 0});
    before.add(at(30), {at(34), 3, 0});
    Missing after = one(20, 24, 1);
    after.add(at(10), {at(14), 3, 0});
    std::vector<Event> batch = {move(10, 20, 4), unmap(10, 14), unmap(20, 24), move(30, 10, 4),
                                unmap(30, 34)};
    std::vector<int> order = {0, 1, 2, 3, 4};
    do {
        std::vector<Event> told;
        for (const int i : order) told.push_back(batch[static_cast<std::size_t>(i)]);
        EXPECT_EQ(apply_all(before, told), after);
    } while (std::ranges::next_permutation(order).found);
}

TEST(PagesChanges, WhatIsDroppedIsNotMissing) {
    EXPECT_EQ(apply_all(one(10, 20), std::vector{drop(10, 12), unmap(18, 20)})->bytes(), 6 * page);
    EXPECT_EQ(apply_all(one(10, 20), std::vector{drop(10, 14), unmap(12, 16)})->bytes(), 4 * page);
}

TEST(PagesChanges, ARaceIsSeen) {
    const auto before = one(10, 20);
    EXPECT_FALSE(apply_all(before, std::vector{move(10, 30, 4), move(12, 40, 4)}));
    EXPECT_FALSE(apply_all(before, std::vector{move(10, 30, 4), drop(12, 13)}));
    EXPECT_FALSE(apply_all(before, std::vector{move(10, 30, 4), unmap(10, 14), unmap(13, 20)}));
    // where nothing is missing nothing can go wrong
    EXPECT_TRUE(apply_all(one(50, 60), std::vector{move(10, 30, 4), move(12, 40, 4)}));
}

TEST(PagesChanges, AChildHasWhatWasThereWhenItWasBorn) {
    const auto before = one(10, 14);
    for (const auto& batch : {std::vector{birth(), unmap(10, 14)}, std::vector{unmap(10, 14), birth()}}) {
        EXPECT_EQ(missing_at_birth(before, batch, only({10, 11, 12, 13}), only({})), before);
        EXPECT_EQ(missing_at_birth(before, batch, only({}), only({})), Missing());
    }
    // 10-14 goes, 30-34 moves there: born before, between, after
    Missing both = one(10, 14, 1);
    both.add(at(30), {at(34), 3, 0});
    const std::vector<Event> batch = {move(30, 10, 4), unmap(30, 34), birth(), unmap(10, 14)};
    const auto moved = only({10, 11, 12, 13});
    EXPECT_EQ(missing_at_birth(both, batch, only({10, 11, 12, 13, 30, 31, 32, 33}), moved), both);
    EXPECT_EQ(missing_at_birth(both, batch, only({30, 31, 32, 33}), moved), one(30, 34, 3));
    EXPECT_EQ(missing_at_birth(both, batch, only({10, 11, 12, 13}), moved), one(10, 14, 3));
    // MREMAP_DONTUNMAP doesn't tell
    EXPECT_FALSE(missing_at_birth(before, std::vector{birth(), move(10, 30, 4)}, only({10}), only({10, 30})));
    // what lies before it has grown: before the birth, or behind it?
    EXPECT_FALSE(missing_at_birth(before, std::vector{birth(), unmap(10, 14)}, only({9, 10}), only({9, 10})));
}

TEST(PagesChanges, WhoIsNotHeld) {
    EXPECT_FALSE(order_matters(std::vector{move(10, 30, 4), unmap(10, 14)}));
    EXPECT_FALSE(order_matters(std::vector{move(10, 30, 4), unmap(10, 14), drop(20, 22), unmap(40, 50)}));
    EXPECT_TRUE(order_matters(std::vector{move(10, 30, 4), unmap(10, 14), drop(32, 33)}));
    EXPECT_TRUE(order_matters(std::vector{unmap(10, 14), birth()}));
    EXPECT_FALSE(order_matters(std::vector{birth()}));
}

}  // namespace
}  // namespace cairn::restart::pages
