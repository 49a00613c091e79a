// Which pages a child's image borrows from its parent's, and what an heir keeps of its parent's memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capture/memory/borrow.h"
#include "common/image/page_hashes.h"
#include "resources/pidfd/schema.h"
#include "restart/heirs/find.h"
#include "restart/heirs/inherit.h"
#include "restart/rebuild/memory_plan.h"

namespace cairn {
namespace {

constexpr std::uint64_t page = 4096;
constexpr ProgramAddress start(0x100000);

schema::PageRun pages_at(std::uint64_t first, std::uint64_t count, std::uint64_t offset) {
    return {start + first * page, count * page, offset * page, 7 * first + count};
}

schema::Area area_of(std::uint64_t count, std::vector<schema::PageRun> runs) {
    schema::Area area;
    area.start = start;
    area.end = start + count * page;
    area.prot = 3;
    area.pages = std::move(runs);
    return area;
}

std::vector<std::uint8_t> contents(const std::vector<int>& values) {
    std::vector<std::uint8_t> bytes;
    for (const int value : values) bytes.insert(bytes.end(), page, static_cast<std::uint8_t>(value));
    return bytes;
}

TEST(BorrowedPages, PiecesFollowTheLendersRuns) {
    const auto area = area_of(6, {pages_at(0, 3, 10), pages_at(3, 2, 40)});
    const capture::Lender lender{ProgramId(5), 0, &area};
    const auto pieces = capture::compare_pages(lender, {start, start + 6 * page},
                                               contents({1, 2, 9, 4, 5, 6}), contents({1, 2, 3, 4, 5, 6}));
    ASSERT_EQ(pieces.size(), 4U);  // two of the first run, one of its own, the second run, one stored nowhere
    EXPECT_TRUE(pieces[0].stored);
    EXPECT_FALSE(pieces[0].whole);
    EXPECT_EQ(pieces[0].range.length(), 2 * page);
    EXPECT_FALSE(pieces[1].stored);
    ASSERT_TRUE(pieces[2].stored);
    EXPECT_TRUE(pieces[2].whole);
    EXPECT_EQ(pieces[2].stored->run.offset, 40 * page);
    EXPECT_FALSE(pieces[3].stored);
}

TEST(BorrowedPages, WhatTheLenderHasBorrowedIsItsLenders) {
    auto area = area_of(4, {pages_at(0, 1, 10)});
    capture::add_borrowed(area, {ProgramId(2), {}, pages_at(1, 2, 70)});
    const capture::Lender lender{ProgramId(5), 0, &area};
    const auto stored = capture::stored_at(lender, start + 2 * page);
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->from, ProgramId(2));
    EXPECT_FALSE(capture::stored_at(lender, start + 3 * page));
}

// A copy that only waits changes where the kernel writes into it.
TEST(BorrowedPages, WhatTheLenderHasChangedSinceIsNotLent) {
    const ProgramRange range{start, start + 4 * page};
    auto theirs = contents({1, 2, 3, 4});
    schema::PageRun run = pages_at(1, 2, 10);
    run.hash = run_hash(std::span<const std::uint8_t>(theirs).subspan(page, 2 * page));
    EXPECT_TRUE(capture::still_as_stored(run, range, theirs));
    theirs[3 * page - 1] ^= 1;
    EXPECT_FALSE(capture::still_as_stored(run, range, theirs));
    EXPECT_FALSE(capture::still_as_stored(pages_at(3, 2, 10), range, theirs));  // goes beyond it
}

TEST(BorrowedPages, OnlyTheSameMappingLends) {
    const std::vector<schema::Area> lenders = {area_of(4, {})};
    const auto lends = [&](const schema::Area& area, std::uint64_t first, std::uint64_t count) {
        return capture::lending_area(lenders, area, {start + first * page, start + (first + count) * page}) !=
               nullptr;
    };
    EXPECT_TRUE(lends(lenders[0], 0, 4));
    const auto longer = area_of(5, {});
    EXPECT_TRUE(lends(longer, 0, 4));
    EXPECT_FALSE(lends(longer, 3, 2));
    auto part = area_of(3, {});
    part.start = part.start + page;
    EXPECT_TRUE(lends(part, 1, 2));
    auto stack = lenders[0];
    stack.grows_down = true;
    EXPECT_FALSE(lends(stack, 0, 4));
}

TEST(BorrowedPages, PartsOfAFileLendIfTheyAreTheSame) {
    auto whole = area_of(4, {});
    whole.kind = schema::AreaKind::file_private;
    whole.object = 7;
    whole.file_offset = 10 * page;
    auto part = whole;
    part.start = part.start + 2 * page;
    part.file_offset = 12 * page;
    const ProgramRange range{part.start, part.end};
    EXPECT_NE(capture::lending_area({whole}, part, range), nullptr);
    part.file_offset = 13 * page;
    EXPECT_EQ(capture::lending_area({whole}, part, range), nullptr);
}

schema::Process process_of(int pid, schema::Area area) {
    schema::Process process;
    process.pid = ProgramId(pid);
    process.areas.push_back(std::move(area));
    return process;
}

TEST(InheritedAreas, GivesUpWhatOnlyTheParentHas) {
    const auto parent = process_of(5, area_of(8, {pages_at(0, 4, 10), pages_at(6, 2, 50)}));
    auto own = area_of(8, {pages_at(1, 1, 20)});
    capture::add_borrowed(own, {ProgramId(5), {}, pages_at(0, 1, 10)});
    capture::add_borrowed(own, {ProgramId(5), {}, pages_at(6, 1, 50)});
    const auto heir = process_of(9, own);
    const auto kept = restart::inherited_areas(heir, parent);
    ASSERT_EQ(kept.size(), 1U);
    const std::vector<ProgramRange> drops = {{start + 2 * page, start + 4 * page},
                                             {start + 7 * page, start + 8 * page}};
    EXPECT_EQ(kept[0].drops, drops);
    const auto plan = restart::plan_memory(heir, {}, kept);
    ASSERT_EQ(plan.runs.size(), 1U);  // its own page alone
    EXPECT_EQ(plan.runs[0].offset, 20 * page);
    EXPECT_EQ(plan.drops.size(), 2U);
}

// The kernel gives a child whose heap grows another area behind it, and its parent a longer one.
TEST(InheritedAreas, APartOfTheParentsIsInherited) {
    const auto parent = process_of(5, area_of(8, {pages_at(0, 4, 10), pages_at(5, 3, 50)}));
    auto own = area_of(6, {});
    own.start = own.start + page;
    capture::add_borrowed(own, {ProgramId(5), {}, pages_at(2, 1, 12)});
    auto heir = process_of(9, own);
    auto behind = area_of(7, {pages_at(6, 1, 90)});
    behind.start = behind.start + 6 * page;
    heir.areas.push_back(behind);
    const auto kept = restart::inherited_areas(heir, parent);
    ASSERT_EQ(kept.size(), 1U);
    const std::vector<ProgramRange> drops = {{start + 1 * page, start + 2 * page},
                                             {start + 3 * page, start + 4 * page},
                                             {start + 5 * page, start + 6 * page}};
    EXPECT_EQ(kept[0].drops, drops);
    auto longer = area_of(9, {});
    capture::add_borrowed(longer, {ProgramId(5), {}, pages_at(2, 1, 12)});
    EXPECT_TRUE(restart::inherited_areas(process_of(9, longer), parent).empty());
}

// A damaged or made-up image: then all is read.
TEST(InheritedAreas, WhatTheParentHasNotIsNotInherited) {
    const auto parent = process_of(5, area_of(8, {pages_at(0, 4, 10)}));
    auto own = area_of(8, {});
    capture::add_borrowed(own, {ProgramId(5), {}, pages_at(2, 1, 10)});  // the parent has another page there
    EXPECT_TRUE(restart::inherited_areas(process_of(9, own), parent).empty());
    own.borrowed.reset();
    capture::add_borrowed(own, {ProgramId(5), {}, pages_at(2, 1, 12)});
    EXPECT_EQ(restart::inherited_areas(process_of(9, own), parent).size(), 1U);
    own.prot = 1;
    EXPECT_TRUE(restart::inherited_areas(process_of(9, own), parent).empty());
    const auto plan = restart::plan_memory(process_of(9, own), {});
    ASSERT_EQ(plan.others.size(), 1U);
    EXPECT_EQ(plan.units.at(0).image, 1U);
}

// What an heir has in an image of an earlier generation is its own; what its parent has there is not.
TEST(InheritedAreas, OwnPagesOfAnEarlierGenerationAreRead) {
    auto parents = area_of(8, {});
    capture::add_borrowed(parents, {ProgramId(5), "first", pages_at(0, 4, 10)});
    auto own = area_of(8, {});
    capture::add_borrowed(own, {ProgramId(5), "first", pages_at(0, 2, 10)});
    capture::add_borrowed(own, {ProgramId(9), "second", pages_at(2, 1, 10)});
    const auto heir = process_of(9, own);
    const auto kept = restart::inherited_areas(heir, process_of(5, parents));
    ASSERT_EQ(kept.size(), 1U);
    EXPECT_EQ(kept[0].drops, (std::vector<ProgramRange>{{start + 3 * page, start + 4 * page}}));
    const auto plan = restart::plan_memory(heir, {}, kept);
    ASSERT_EQ(plan.units.size(), 1U);
    EXPECT_EQ(plan.others, (std::vector<std::string>{"second"}));
    EXPECT_EQ(plan.units[0].image, 1U);
    // Another file, or the parent's own image, has other pages at this place.
    auto others = own;
    others.borrowed->front().file = "second";
    EXPECT_TRUE(restart::inherited_areas(process_of(9, others), process_of(5, parents)).empty());
    others.borrowed->front().file.reset();
    EXPECT_TRUE(restart::inherited_areas(process_of(9, others), process_of(5, parents)).empty());
}

class FindHeirs : public testing::Test {
  protected:
    // With 5 MiB of its parent's, unless it has none.
    schema::Process& add(int pid, int ppid, int pgid) {
        auto process = process_of(pid, area_of(2048, {}));
        for (std::uint64_t part = 0; part < 5 && ppid != 1; ++part)
            capture::add_borrowed(process.areas[0],
                                  {ProgramId(100), {}, pages_at(part * 256, 256, 10 + part * 256)});
        process.ppid = ProgramId(ppid);
        process.pgid = ProgramId(pgid);
        process.sid = ProgramId(100);
        process.executable = 3;
        process.threads.emplace_back();
        return processes_.emplace_back(std::move(process));
    }
    [[nodiscard]] std::vector<int> found() const {
        std::vector<int> ids;
        for (const auto& [heir, parent] : restart::find_heirs(processes_, objects_))
            ids.push_back(heir.number());
        return ids;
    }
    std::vector<schema::Process> processes_;
    schema::Objects objects_;
};

TEST_F(FindHeirs, ChildrenAndTheirChildren) {
    add(100, 1, 100);
    add(101, 100, 100);
    add(102, 101, 100);
    add(103, 100, 103);  // leads a group of its own
    EXPECT_EQ(found(), (std::vector{101, 102, 103}));
}

TEST_F(FindHeirs, NobodyWhomTheForestNeeds) {
    add(100, 1, 100);
    add(101, 100, 100);
    add(102, 101, 100).executable = 4;  // so its parent has to be there before
    add(103, 100, 103);
    add(104, 100, 103);  // in a group that another one leads
    add(105, 100, 100).sid = ProgramId(105);
    add(106, 100, 100).run = schema::Run::stopped;
    add(107, 100, 100).areas[0].borrowed.reset();
    EXPECT_TRUE(found().empty());
}

TEST_F(FindHeirs, NobodyForWhatItHasOfItsOwn) {
    add(100, 1, 100);
    for (auto& part : *add(101, 100, 100).areas[0].borrowed) {
        part.from = ProgramId(101);
        part.file = "first";
    }
    EXPECT_TRUE(found().empty());
}

TEST_F(FindHeirs, NobodyWhoIsNamedBefore) {
    add(100, 1, 100);
    add(101, 100, 100);
    add(102, 100, 100);
    schema::Object pidfd;
    pidfd.what = schema::Pidfd{ProgramId(101), {}};
    objects_.objects.push_back(pidfd);
    EXPECT_EQ(found(), (std::vector{102}));
}

}  // namespace
}  // namespace cairn
