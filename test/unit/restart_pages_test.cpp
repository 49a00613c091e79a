#include <gtest/gtest.h>

#include <set>

#include "restart/pages/order.h"

namespace cairn::restart::pages {
namespace {

constexpr std::uint64_t page = 4096;

Missing one(std::uint64_t start, std::uint64_t end, std::uint32_t run = 0) {
    Missing missing;
    missing.add(start * page, {end * page, run, 0});
    return missing;
}

Event unmap(std::uint64_t from, std::uint64_t to, SpaceId space = 0) {
    return {space, Change::unmap, from * page, (to - from) * page};
}
Event drop(std::uint64_t from, std::uint64_t to, SpaceId space = 0) {
    return {space, Change::remove, from * page, (to - from) * page};
}
Event move(std::uint64_t from, std::uint64_t to, std::uint64_t length, SpaceId space = 0) {
    return {space, Change::remap, from * page, length * page, to * page};
}
Event birth(SpaceId parent, SpaceId child) {
    return {parent, Change::fork, 0, 0, 0, child};
}

// What the kernel would say: these pages are registered, of each space.
Registered only(std::map<SpaceId, std::set<std::uint64_t>> pages) {
    return [pages = std::move(pages)](SpaceId space, std::uint64_t address) {
        const auto found = pages.find(space);
        return found != pages.end() && found->second.contains(address / page);
    };
}

// The outcome for what is missing; fails if there is none.
Spaces settled(Spaces spaces, const std::vector<Event>& batch, const Registered& registered) {
    const auto order = settle_order(spaces, batch, registered);
    EXPECT_TRUE(order.has_value());
    if (order)
        for (const auto i : *order) apply(batch[i], spaces);
    return spaces;
}

TEST(PagesMissing, ErasesTheMiddleOfAPiece) {
    auto missing = one(10, 20);
    missing.erase(12 * page, 15 * page);
    EXPECT_FALSE(missing.find(12 * page));
    ASSERT_TRUE(missing.find(15 * page));
    EXPECT_EQ(missing.find(15 * page)->second.skip, 5 * page);
    EXPECT_EQ(missing.bytes(), 7 * page);
    EXPECT_EQ(missing.next(13 * page)->first, 15 * page);
    EXPECT_EQ(missing.next(30 * page)->first, 10 * page);
}

TEST(PagesMissing, MovesPartsAndOverwrites) {
    auto missing = one(10, 20, 1);
    missing.add(40 * page, {44 * page, 2, 0});
    missing.move(12 * page, 42 * page, 4 * page);
    EXPECT_EQ(missing.find(42 * page)->second, (Piece{46 * page, 1, 2 * page}));
    EXPECT_EQ(missing.find(41 * page)->second.run, 2u);
    EXPECT_FALSE(missing.find(12 * page));
    EXPECT_TRUE(missing.find(16 * page));
    EXPECT_EQ(missing.bytes(), 12 * page);
}

TEST(PagesMissing, MovesOntoItsOwnPlace) {
    auto missing = one(10, 20);
    missing.move(10 * page, 15 * page, 10 * page);
    EXPECT_FALSE(missing.find(14 * page));
    EXPECT_EQ(missing.find(15 * page)->second, (Piece{25 * page, 0, 0}));
}

TEST(PagesOrder, AMoveAndTheUnmappingOfItsOldPlaceAreOne) {
    const auto result =
        settled({{0, one(10, 14)}}, {move(10, 20, 4), unmap(10, 14)}, only({{0, {20, 21, 22, 23}}}));
    EXPECT_EQ(result.at(0), one(20, 24));
}

// One thread unmaps 20-24, another moves 10-14 there; the second is told of first.
TEST(PagesOrder, UnmappedBeforeSomethingElseMovedThere) {
    Missing both = one(10, 14, 1);
    both.add(20 * page, {24 * page, 2, 0});
    const std::vector<Event> batch = {move(10, 20, 4), unmap(10, 14), unmap(20, 24)};
    EXPECT_EQ(settled({{0, both}}, batch, only({{0, {20, 21, 22, 23}}})).at(0), one(20, 24, 1));
    // and if it really was unmapped at last
    EXPECT_TRUE(settled({{0, one(10, 14, 1)}}, batch, only({{0, {}}})).at(0).empty());
}

// 20-24 moves to 30, 10-14 moves to 20; told of the wrong way round.
TEST(PagesOrder, MovesThatFollowEachOther) {
    Missing both = one(10, 14, 1);
    both.add(20 * page, {24 * page, 2, 0});
    const std::vector<Event> batch = {move(10, 20, 4), unmap(10, 14), move(20, 30, 4), unmap(20, 24)};
    Missing expected = one(20, 24, 1);
    expected.add(30 * page, {34 * page, 2, 0});
    EXPECT_EQ(settled({{0, both}}, batch, only({{0, {20, 21, 22, 23, 30, 31, 32, 33}}})).at(0), expected);
    // first there, and on
    EXPECT_EQ(settled({{0, one(10, 14, 1)}}, batch, only({{0, {30, 31, 32, 33}}})).at(0), one(30, 34, 1));
}

TEST(PagesOrder, AChildHasWhatWasThereWhenItWasBorn) {
    const Spaces before = {{0, one(10, 14)}};
    for (const auto& batch :
         {std::vector{birth(0, 5), unmap(10, 14)}, std::vector{unmap(10, 14), birth(0, 5)}}) {
        const auto early = settled(before, batch, only({{5, {10, 11, 12, 13}}}));
        EXPECT_TRUE(early.at(0).empty());
        EXPECT_EQ(early.at(5), one(10, 14));
        const auto late = settled(before, batch, only({}));
        EXPECT_TRUE(late.at(0).empty());
        EXPECT_TRUE(late.at(5).empty());
    }
}

TEST(PagesOrder, ARemovalComesAfterWhatWasReadBeforeIt) {
    Missing both = one(10, 14, 1);
    both.add(20 * page, {24 * page, 2, 0});
    // unmap 20-24 (told last), move 10-14 there, drop the first half of it
    const std::vector<Event> batch = {move(10, 20, 4), unmap(10, 14), drop(20, 22), unmap(20, 24)};
    Missing expected;
    expected.add(22 * page, {24 * page, 1, 2 * page});
    EXPECT_EQ(settled({{0, both}}, batch, only({{0, {20, 21, 22, 23}}})).at(0), expected);
}

TEST(PagesOrder, NeverGuesses) {
    Missing both = one(10, 14, 1);
    both.add(30 * page, {34 * page, 2, 0});
    // either could be what is at 20 now
    const std::vector<Event> batch = {move(10, 20, 4), unmap(10, 14), unmap(20, 24), move(30, 20, 4),
                                      unmap(30, 34)};
    EXPECT_FALSE(settle_order({{0, both}}, batch, only({{0, {20, 21, 22, 23}}})));
}

// 10-20 moves to 50; then 30-36 moves into the hole, to 12, and grows up to 20.
TEST(PagesOrder, MovedIntoAHoleAndGrown) {
    Missing both = one(10, 20, 1);
    both.add(30 * page, {36 * page, 2, 0});
    std::set<std::uint64_t> registered;
    for (std::uint64_t i = 12; i < 20; ++i) registered.insert(i);
    for (std::uint64_t i = 50; i < 60; ++i) registered.insert(i);
    Missing expected = one(50, 60, 1);
    expected.add(12 * page, {18 * page, 2, 0});
    EXPECT_EQ(settled({{0, both}}, {move(10, 50, 10), unmap(10, 20), move(30, 12, 6), unmap(30, 36)},
                      only({{0, registered}}))
                  .at(0),
              expected);
    EXPECT_EQ(settled({{0, both}}, {move(30, 12, 6), unmap(30, 36), move(10, 50, 10), unmap(10, 20)},
                      only({{0, registered}}))
                  .at(0),
              expected);
}

// 40-50, whose pages are there, moves to 10; then 60-69 moves into the hole, to 41. The other way round 10-20
// would have had to grow up to 41, across what is missing at 20.
TEST(PagesOrder, NothingGrowsAcrossAnother) {
    Missing both = one(60, 69, 1);
    both.add(20 * page, {25 * page, 2, 0});
    std::set<std::uint64_t> registered;
    for (std::uint64_t i = 10; i < 25; ++i) registered.insert(i);
    for (std::uint64_t i = 41; i < 50; ++i) registered.insert(i);
    Missing expected = one(41, 50, 1);
    expected.add(20 * page, {25 * page, 2, 0});
    EXPECT_EQ(settled({{0, both}}, {move(40, 10, 10), unmap(40, 50), move(60, 41, 9), unmap(60, 69)},
                      only({{0, registered}}))
                  .at(0),
              expected);
}

TEST(PagesOrder, ManyAtOnceInPlacesOfTheirOwn) {
    Missing missing;
    std::vector<Event> batch;
    std::set<std::uint64_t> registered;
    for (std::uint64_t i = 0; i < 10; ++i) {  // of each hundred: 10-14 to 20, where something was unmapped
        missing.add((i * 100 + 10) * page, {(i * 100 + 14) * page, static_cast<std::uint32_t>(i), 0});
        missing.add((i * 100 + 20) * page, {(i * 100 + 24) * page, 99, 0});
        batch.push_back(move(i * 100 + 10, i * 100 + 20, 4));
        for (std::uint64_t k = 20; k < 24; ++k) registered.insert(i * 100 + k);
    }
    for (std::uint64_t i = 0; i < 10; ++i) {
        batch.push_back(unmap(i * 100 + 10, i * 100 + 14));
        batch.push_back(unmap(i * 100 + 20, i * 100 + 24));
    }
    const auto result = settled({{0, missing}}, batch, only({{0, registered}}));
    EXPECT_EQ(result.at(0).bytes(), 40 * page);
    for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(result.at(0).find((i * 100 + 20) * page)->second.run, i);
}

TEST(PagesOrder, WhatDoesntTouchIsNotAskedFor) {
    const auto nobody = [](SpaceId, std::uint64_t) -> bool {
        ADD_FAILURE();
        return false;
    };
    std::vector<Event> batch;
    for (std::uint64_t i = 0; i < 40; ++i) batch.push_back(i % 2 == 0 ? unmap(i, i + 1) : drop(i, i + 1));
    const auto result = settled({{0, one(0, 50)}}, batch, nobody);
    EXPECT_EQ(result.at(0).bytes(), 10 * page);
}

}  // namespace
}  // namespace cairn::restart::pages
