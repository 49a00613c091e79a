// How a restart brings memory back: in which units, eagerly or lazily.
#include <gtest/gtest.h>

#include "restart/rebuild/memory_plan.h"

namespace cairn::restart {
namespace {

constexpr std::uint64_t mib = 1 << 20;

schema::Area area(std::uint64_t start, std::uint64_t end,
                  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs) {
    schema::Area area;
    area.start = ProgramAddress(start);
    area.end = ProgramAddress(end);
    std::uint64_t offset = 4096;
    for (const auto& [address, length] : runs) {
        area.pages.push_back({ProgramAddress(address), length, offset, 0});
        offset += length;
    }
    return area;
}

std::vector<std::uint32_t> kinds(const MemoryPlan& plan) {
    std::vector<std::uint32_t> list;
    for (const auto& unit : plan.units) list.push_back(unit.kind);
    return list;
}

using Kinds = std::vector<std::uint32_t>;

TEST(MemoryPlan, HugePagesWhereTheRunsFillOne) {
    schema::Process process;
    process.areas = {area(2 * mib - 4096, 6 * mib,
                          {{2 * mib - 4096, 4096}, {2 * mib, mib}, {3 * mib, mib}, {4 * mib, mib}})};
    const auto plan = plan_memory(process, {HugePages::either, 8, false});
    EXPECT_EQ(kinds(plan), (Kinds{restorer::unit_copied, restorer::unit_either, restorer::unit_copied}));
    EXPECT_EQ(plan.units[1].first_run, 1u);
    EXPECT_EQ(plan.units[1].run_count, 2u);
    ASSERT_EQ(plan.watched.size(), 1u);
    EXPECT_EQ(plan.watched[0].start, 2 * mib - 4096);
    EXPECT_EQ(plan.readers, 1u);
}

TEST(MemoryPlan, NoHugePagesWhereTheProgramOrTheMachineWantsNone) {
    schema::Process process;
    process.areas = {area(2 * mib, 4 * mib, {{2 * mib, mib}, {3 * mib, mib}})};
    EXPECT_EQ(kinds(plan_memory(process, {HugePages::either, 1, false})), (Kinds{restorer::unit_either}));
    const Kinds small = {restorer::unit_copied, restorer::unit_copied};
    EXPECT_EQ(kinds(plan_memory(process, {HugePages::none, 1, false})), small);
    process.thp_disable = true;
    EXPECT_EQ(kinds(plan_memory(process, {HugePages::either, 1, false})), small);
    process.thp_disable = false;
    process.areas[0].no_huge = true;
    EXPECT_EQ(kinds(plan_memory(process, {HugePages::either, 1, false})), small);
}

TEST(MemoryPlan, WhoAskedForHugePagesHasThem) {
    schema::Process process;
    process.areas = {area(2 * mib, 4 * mib, {{2 * mib, mib}, {3 * mib, mib}})};
    EXPECT_EQ(kinds(plan_memory(process, {HugePages::wanted, 1, false})), (Kinds{restorer::unit_huge}));
    process.areas[0].huge = true;
    EXPECT_EQ(kinds(plan_memory(process, {HugePages::either, 1, false})), (Kinds{restorer::unit_huge}));
    const Kinds small = {restorer::unit_copied, restorer::unit_copied};
    EXPECT_EQ(kinds(plan_memory(process, {HugePages::none, 1, false})), small);
}

TEST(MemoryPlan, SmallAreasAndFilesAreReadInPlace) {
    schema::Process process;
    process.areas = {area(mib, 2 * mib, {{mib, 4096}}),
                     area(2 * mib, 6 * mib, {{2 * mib, mib}, {3 * mib, mib}, {4 * mib, mib}})};
    process.areas[1].kind = schema::AreaKind::file_private;
    const auto plan = plan_memory(process, {HugePages::either, 2, false});
    EXPECT_EQ(kinds(plan), Kinds(4, restorer::unit_in_place));
    EXPECT_TRUE(plan.watched.empty());
}

TEST(MemoryPlan, EveryRunOnceAndNoUnitAboveItsBuffer) {
    schema::Process process;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
    for (std::uint64_t i = 0; i < 1000; ++i) runs.emplace_back(mib + i * 3 * 8192, 8192);
    process.areas = {area(mib, 64 * mib, runs)};
    const auto plan = plan_memory(process, {HugePages::either, 64, false});
    std::uint64_t next = 0;
    for (const auto& unit : plan.units) {
        EXPECT_EQ(unit.first_run, next);
        std::uint64_t bytes = 0;
        for (std::uint64_t i = 0; i < unit.run_count; ++i) bytes += plan.runs[unit.first_run + i].length;
        EXPECT_LE(bytes, restorer::unit_buffer);
        next += unit.run_count;
    }
    EXPECT_EQ(next, 1000u);
    EXPECT_EQ(plan.readers, 1u);
}

TEST(MemoryPlan, ReadersByProcessorsAndBytes) {
    schema::Process process;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
    for (std::uint64_t i = 0; i < 40; ++i) runs.emplace_back((i + 1) * mib, mib);
    process.areas = {area(mib, 41 * mib, runs)};
    EXPECT_EQ(plan_memory(process, {HugePages::either, 2, false}).readers, 2u);
    EXPECT_EQ(plan_memory(process, {HugePages::either, 64, false}).readers, 6u);
}

TEST(MemoryPlan, LazyWhereItIsExact) {
    schema::Process process;
    process.areas = {
        area(mib, 3 * mib, {{mib, mib}, {2 * mib, mib}}), area(4 * mib, 5 * mib, {{4 * mib, 4096}}),
        area(8 * mib, 9 * mib, {{8 * mib, mib}}),         area(10 * mib, 11 * mib, {{10 * mib, mib}}),
        area(12 * mib, 13 * mib, {{12 * mib, mib}}),      area(14 * mib, 15 * mib, {{14 * mib, mib}})};
    process.areas[2].locked = true;
    process.areas[3].grows_down = true;
    process.areas[4].wipe_on_fork = true;
    process.areas[5].kind = schema::AreaKind::file_private;
    const auto plan = plan_memory(process, {HugePages::either, 1, true});
    ASSERT_EQ(plan.lazy_areas.size(), 1u);
    EXPECT_EQ(plan.lazy_areas[0].start, mib);
    EXPECT_EQ(plan.lazy_runs.size(), 2u);
    EXPECT_EQ(plan.runs.size(), 5u);
    EXPECT_EQ(lazy_bytes(process), 2 * mib);
}

}  // namespace
}  // namespace cairn::restart
