// Which pages of an earlier generation a checkpoint finds again, and which of its images it keeps.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "capture/memory/earlier.h"
#include "common/image/page_hashes.h"
#include "common/image/writer.h"
#include "common/schema/image_name.h"
#include "common/schema/json.h"
#include "restart/rebuild/memory_plan.h"
#include "test/unit/folder.h"

namespace cairn {
namespace {

using capture::EarlierImages;
using test::Folder;

constexpr ProgramId owner(5);
constexpr std::uint64_t many = 300;  // pages: more than the MiB from which on links are made
constexpr ProgramAddress memory_at(0x100000);

ProgramAddress address_of(std::uint64_t page) {
    return memory_at + page * image_page;
}

class Generation {
  public:
    // `values`: of its own pages, which begin at `first`; none: no page is there.
    Generation(const Folder& folder, std::uint64_t first, const std::vector<int>& values,
               std::vector<schema::Borrowed> earlier = {}) {
        auto writer = ImageWriter::create(folder.fd(), schema::image_name(owner), ImageKind::process);
        if (!writer) throw std::runtime_error(writer.error().what);
        process_.pid = owner;
        auto& area = process_.areas.emplace_back();
        area.start = memory_at;
        area.end = address_of(10 * many);
        PageHashes hashes;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto bytes = page_of(values[i]);
            const auto offset = writer->reserve(image_page);
            if (!writer->write_at(offset, bytes)) throw std::runtime_error("write_at");
            area.pages.push_back({address_of(first + i), image_page, offset, run_hash(bytes)});
            hashes.put(offset, std::vector{page_hash(bytes)});
        }
        if (!earlier.empty()) area.borrowed = std::move(earlier);
        writer->add_section(SectionType::meta, schema::encode(process_));
        writer->add_section(SectionType::page_hashes, hashes.to_section());
        if (!writer->finish(Durable::no)) throw std::runtime_error("finish");
    }

    static std::vector<std::uint8_t> page_of(int value) {
        std::vector<std::uint8_t> bytes(image_page, 7);
        std::memcpy(bytes.data(), &value, sizeof value);
        return bytes;
    }
    static std::uint64_t hash_of(int value) { return page_hash(page_of(value)); }
    [[nodiscard]] const std::vector<schema::PageRun>& pages() const { return process_.areas[0].pages; }

  private:
    schema::Process process_;
};

std::vector<int> numbers(int first, std::uint64_t count) {
    std::vector<int> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = first + static_cast<int>(i);
    return all;
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

TEST(EarlierImages, FindsWhatIsWhatItWas) {
    const Folder older, newer;
    const Generation first(older, 0, numbers(1000, many));
    EarlierImages earlier(newer.fd(), older.path(), owner);
    ASSERT_FALSE(earlier.empty());
    const auto found = earlier.find(address_of(17), Generation::hash_of(1017));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->offset, first.pages()[17].offset);
    EXPECT_FALSE(earlier.find(address_of(17), Generation::hash_of(1018)));  // it has changed
    EXPECT_FALSE(earlier.find(address_of(many), Generation::hash_of(1000)));
    EXPECT_FALSE(earlier.find(ProgramAddress(0x1000), Generation::hash_of(1000)));
    earlier.use(found->image);
    const auto kept = earlier.finish();
    ASSERT_EQ(kept.size(), 1U);
    EXPECT_EQ(kept[0].pid, owner);
    EXPECT_TRUE(exists(newer.file(kept[0].file)));
}

// What the kernel says is unchanged is named by what is known of it, with the hash that it would have if it
// had been read.
TEST(EarlierImages, NamesPagesThatNobodyHasRead) {
    const Folder older, newer;
    const Generation first(older, 10, numbers(1000, many));
    const EarlierImages earlier(newer.fd(), older.path(), owner);
    EXPECT_NE(earlier.newest_id(), 0U);
    EXPECT_EQ(earlier.hash_of(address_of(9)), 0U);
    EXPECT_EQ(earlier.hash_of(address_of(12)), Generation::hash_of(1002));
    // The generation's runs are of a page each.
    const auto parts = earlier.parts_in({address_of(0), address_of(13)});
    ASSERT_EQ(parts.size(), 3U);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_EQ(parts[i].run.at, address_of(10 + i));
        EXPECT_EQ(parts[i].run.length, image_page);
        EXPECT_EQ(parts[i].run.offset, first.pages()[i].offset);
        EXPECT_EQ(parts[i].run.hash, run_hash(Generation::page_of(1000 + static_cast<int>(i))));
    }
    EXPECT_TRUE(earlier.parts_in({address_of(0), address_of(10)}).empty());
    EXPECT_TRUE(earlier.parts_in({address_of(10 + many), address_of(20 + many)}).empty());
    EXPECT_EQ(earlier.parts_in({address_of(0), address_of(9 * many)}).size(), many);
}

TEST(EarlierImages, SamplesAreSpread) {
    const Folder older, newer;
    const Generation first(older, 10, numbers(1000, many));
    const EarlierImages earlier(newer.fd(), older.path(), owner);
    const auto few = earlier.sample({address_of(0), address_of(9 * many)}, 30);
    ASSERT_EQ(few.size(), 30U);
    EXPECT_LT(few.front(), address_of(10 + many / 20));
    EXPECT_GT(few.back(), address_of(10 + many - many / 20));
    EXPECT_EQ(earlier.sample({address_of(0), address_of(14)}, 30).size(), 4U);
    EXPECT_TRUE(earlier.sample({address_of(0), address_of(10)}, 30).empty());
}

// Who has nothing that can be used believes nothing.
TEST(EarlierImages, OfNoImageThereIsNoId) {
    const Folder older, newer;
    EXPECT_EQ(EarlierImages(newer.fd(), older.path(), owner).newest_id(), 0U);
    const Generation first(older, 0, numbers(1000, many));
    EXPECT_EQ(EarlierImages(newer.fd(), older.path(), ProgramId(6)).newest_id(), 0U);
}

TEST(EarlierImages, KeepsNoLinkThatNobodyNeeds) {
    const Folder older, newer;
    const Generation first(older, 0, numbers(1000, many));
    EarlierImages earlier(newer.fd(), older.path(), owner);
    const auto name = earlier.name(0);
    EXPECT_TRUE(exists(newer.file(name)));
    EXPECT_TRUE(earlier.finish().empty());
    EXPECT_FALSE(exists(newer.file(name)));
}

TEST(EarlierImages, LittleIsStoredAgain) {
    const Folder older, newer;
    const Generation first(older, 0, numbers(1000, 3));
    EXPECT_TRUE(EarlierImages(newer.fd(), older.path(), owner).empty());
    EXPECT_TRUE(EarlierImages(newer.fd(), "", owner).empty());
    EXPECT_TRUE(EarlierImages(newer.fd(), older.path(), ProgramId(6)).empty());
}

// An image of which less than half is needed is given up, so that a generation takes twice its own size at
// most.
TEST(EarlierImages, WhatIsHardlyNeededIsGivenUp) {
    const Folder oldest, older, newer;
    const Generation first(oldest, 0, numbers(1000, many));
    const auto part = [&](std::uint64_t count) {
        return schema::Borrowed{
            owner, "first", {first.pages().begin(), first.pages().begin() + static_cast<long>(count)}};
    };
    const auto images_with = [&](std::uint64_t needed) {
        const Folder middle, next;
        EXPECT_EQ(::link(oldest.file(schema::image_name(owner)).c_str(), middle.file("first").c_str()), 0);
        const Generation second(middle, many, numbers(5000, many), {part(needed)});
        EarlierImages earlier(next.fd(), middle.path(), owner);
        const auto old = earlier.find(address_of(3), Generation::hash_of(1003));
        const auto recent = earlier.find(address_of(many + 3), Generation::hash_of(5003));
        EXPECT_TRUE(recent);
        return old.has_value();
    };
    EXPECT_TRUE(images_with(many / 2 + 1));
    EXPECT_FALSE(images_with(many / 2 - 1));
}

// Lazily, too, each from its own image.
TEST(EarlierImages, ARestartReadsEachPageWhereItIs) {
    schema::Process process;
    process.pid = owner;
    auto& area = process.areas.emplace_back();
    area.start = memory_at;
    area.end = address_of(4 * many);
    area.pages = {{address_of(0), 256 * image_page, image_page, 1}};
    area.borrowed = {{owner, "first", {{address_of(256), 256 * image_page, image_page, 2}}},
                     {owner, "second", {{address_of(512), 256 * image_page, image_page, 3}}}};
    restart::MemoryWishes wishes;
    wishes.lazy = true;
    const auto lazy = restart::plan_memory(process, wishes);
    EXPECT_EQ(lazy.others, (std::vector<std::string>{"first", "second"}));
    ASSERT_EQ(lazy.lazy_runs.size(), 3U);
    for (const auto& run : lazy.lazy_runs) EXPECT_EQ(run.image + 1, run.hash);
    EXPECT_EQ(restart::lazy_bytes(process), 768 * image_page);
    wishes.lazy = false;
    const auto eager = restart::plan_memory(process, wishes);
    EXPECT_TRUE(eager.lazy_runs.empty());
    ASSERT_EQ(eager.units.size(), 3U);
    for (const auto& unit : eager.units) EXPECT_EQ(unit.image + 1, eager.runs[unit.first_run].hash);
    // What another process has as well may have to be there when that one is born.
    (*area.borrowed)[0].from = ProgramId(4);
    wishes.lazy = true;
    EXPECT_TRUE(restart::plan_memory(process, wishes).lazy_runs.empty());
}

}  // namespace
}  // namespace cairn
