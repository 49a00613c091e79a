// The record of an MPI process that is read while it grows: a later reader goes on where an earlier one was,
// whatever has gone from the tail into blocks meanwhile, also when the first part has been removed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "mpi/record/beginning.h"
#include "mpi/record/reader.h"
#include "mpi/record/writer.h"
#include "test/causality/random.h"
#include "test/unit/folder.h"

namespace cairn::mpi {
namespace {

using cairn::test::Random;

constexpr Column columns_used[] = {Column::hits, Column::index, Column::content, Column::falses};
constexpr std::size_t used = std::size(columns_used);

// What it writes is the row 0, 1, 2, ... in each column, as bytes in the column of contents.
struct Written {
    std::unique_ptr<RecordWriter> writer;
    std::uint64_t count[used] = {};

    explicit Written(const std::string& folder) {
        auto made = RecordWriter::create(folder, {.job = 7,
                                                  .rank = 0,
                                                  .size = 1,
                                                  .mpi = "mpich",
                                                  .program = "p",
                                                  .build = "b",
                                                  .arguments = "a",
                                                  .contents = true});
        EXPECT_TRUE(made) << made.error().what;
        writer = std::move(*made);
    }
    void some(Random& random) {
        for (std::uint32_t calls = random.below(40); calls > 0; --calls) {
            writer->begin();
            for (std::size_t i = 0; i < used; ++i) {
                if (!random.chance(i == 2 ? 60 : 20)) continue;
                const std::uint64_t value = count[i]++;
                if (columns_used[i] == Column::content) {
                    std::string bytes(random.below(60'000), static_cast<char>(value));
                    writer->put_bytes(Column::content, bytes.data(), bytes.size());
                } else {
                    writer->put(columns_used[i], value);
                }
            }
            writer->end();
        }
    }
};

struct Read {
    std::unique_ptr<RecordReader> reader;
    std::uint64_t count[used] = {};

    // Up to so many of each column; false: it is at the end of one.
    bool one(std::size_t i) {
        if (columns_used[i] == Column::content) {
            const auto bytes = reader->next_bytes(Column::content);
            if (!bytes) return false;
            EXPECT_TRUE(*bytes == std::string(bytes->size(), static_cast<char>(count[i])));
        } else {
            const auto value = reader->next(columns_used[i]);
            if (!value) return false;
            EXPECT_EQ(*value, count[i]);
        }
        ++count[i];
        return true;
    }
    void some(Random& random) {
        for (std::size_t i = 0; i < used; ++i)
            for (std::uint32_t most = random.below(60); most > 0 && one(i); --most) {
            }
    }
    void all() {
        for (std::size_t i = 0; i < used; ++i)
            while (one(i)) {
            }
    }
};

TEST(MpiRecord, ReadWhileItGrows) {
    for (std::uint64_t seed = 0; seed < test::cases(60); ++seed) {
        Random random(seed);
        const test::Folder folder;
        Written written(folder.path());
        Read read;
        for (int round = 0; round < 25; ++round) {
            written.some(random);
            if (round == 24) written.writer->close();
            auto now = RecordReader::open(folder.path(), 0);
            ASSERT_TRUE(now) << now.error().what;
            EXPECT_FALSE((*now)->has_grown());
            if (read.reader) {
                const auto goes_on = (*now)->go_on_as(*read.reader);
                ASSERT_TRUE(goes_on) << goes_on.error().what;
            }
            read.reader = std::move(*now);
            if (random.chance(30))
                read.all();
            else
                read.some(random);
        }
        read.all();
        for (std::size_t i = 0; i < used; ++i)
            // The writer puts what it has counted when it is closed.
            EXPECT_GE(read.count[i], written.count[i]) << name(columns_used[i]) << ", seed " << seed;
        EXPECT_TRUE(read.reader->closed());
    }
}

TEST(MpiRecord, GrowthIsSeen) {
    const test::Folder folder;
    Written written(folder.path());
    auto reader = RecordReader::open(folder.path(), 0);
    ASSERT_TRUE(reader);
    EXPECT_FALSE((*reader)->has_grown());
    written.writer->begin();
    EXPECT_TRUE((*reader)->has_grown());
}

TEST(MpiRecord, BeginsWhereItsFirstPartWasRemoved) {
    Random random(3);
    const test::Folder folder;
    Written written(folder.path());
    while (written.writer->bytes_written() < 200'000) written.some(random);
    Read read;
    auto first = RecordReader::open(folder.path(), 0);
    ASSERT_TRUE(first);
    const std::uint64_t half = (*first)->begun() / 2;
    const auto block = (*first)->first_block_behind(half);
    ASSERT_GT(block.offset, (*first)->header_bytes());
    EXPECT_EQ((*first)->first_block_behind(0).offset, (*first)->header_bytes());
    read.reader = std::move(*first);
    read.all();
    written.some(random);
    Beginnings begins{.job = 7,
                      .ranks = {{.position = half,
                                 .event = half,
                                 .within = false,
                                 .offset = block.offset,
                                 .block = block.number,
                                 .removed = false}}};
    ASSERT_TRUE(write_beginnings(folder.path(), begins));
    const std::string path = record_path(folder.path(), 0);
    const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    // Whoever is killed before the hole is made leaves a record that is read as if there were one.
    for (const bool removed : {false, true}) {
        if (removed) {
            ASSERT_EQ(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(read.reader->header_bytes()),
                                  static_cast<off_t>(block.offset - read.reader->header_bytes())),
                      0);
        }
        begins.ranks[0].removed = removed;
        ASSERT_TRUE(write_beginnings(folder.path(), begins));
        auto later = RecordReader::open(folder.path(), 0);
        ASSERT_TRUE(later) << later.error().what;
        ASSERT_TRUE((*later)->beginning());
        EXPECT_EQ((*later)->beginning()->event, half);
        Read on = {.reader = std::move(*later), .count = {}};
        ASSERT_TRUE(on.reader->go_on_as(*read.reader));
        std::copy(std::begin(read.count), std::end(read.count), std::begin(on.count));
        on.all();
        for (std::size_t i = 0; i < used; ++i) EXPECT_EQ(on.count[i], written.count[i]);
    }
    // A record that was written again where the hole was.
    ASSERT_EQ(::pwrite(file.get(), "again", 5, static_cast<off_t>(block.offset) - 5), 5);
    const auto again = RecordReader::open(folder.path(), 0);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ExitCode::damaged);
    begins.job = 8;
    ASSERT_TRUE(write_beginnings(folder.path(), begins));
    EXPECT_NE(RecordReader::open(folder.path(), 0).error().what.find("is of another record"),
              std::string::npos);
}

}  // namespace
}  // namespace cairn::mpi
