// Contents of inodes, copied ahead and brought up to date.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "common/image/hash.h"
#include "common/image/reader.h"
#include "resources/memory/capture_contents.h"
#include "resources/memory/capture_read.h"
#include "resources/memory/capture_sight.h"
#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

using capture::InodeContents;
using capture::Sight;
using Runs = std::vector<schema::ObjectRun>;

class MemoryContents : public ::testing::Test {
  protected:
    MemoryContents() {
        auto writer = ImageWriter::create(AT_FDCWD, folder_ / "image", ImageKind::objects);
        writer_ = std::make_unique<ImageWriter>(std::move(*writer));
        EXPECT_EQ(::ftruncate(fd_.get(), 64 * image_page), 0);
    }

    void fill(std::uint64_t first, std::uint64_t count, char with) {
        const std::string text(count * image_page, with);
        ASSERT_EQ(::pwrite(fd_.get(), text.data(), text.size(), static_cast<off_t>(first * image_page)),
                  static_cast<ssize_t>(text.size()));
    }
    // As it is read, ahead (null) or in the pause.
    std::uint64_t read_all(InodeContents& contents, Runs* runs) {
        struct stat status {};
        EXPECT_EQ(::fstat(fd_.get(), &status), 0);
        std::atomic<std::uint64_t> read = 0;
        const auto done = capture::read_contents(
            fd_.get(), static_cast<std::uint64_t>(status.st_size), "memory",
            {contents.block(), [&](auto at, auto bytes) { return contents.is_unchanged(at, bytes, runs); },
             [&](auto at, auto data) {
                 read += data.size();
                 return contents.put(at, data, runs);
             }});
        EXPECT_TRUE(done) << done.error().what;
        return read;
    }
    // What a restart would make of the runs: bytes of the inode.
    std::string restored(const Runs& runs) {
        EXPECT_TRUE(writer_->finish(Durable::no));
        struct stat status {};
        EXPECT_EQ(::fstat(fd_.get(), &status), 0);
        std::string all(static_cast<std::size_t>(status.st_size), '\0');
        const Fd image(::open((folder_ / "image").c_str(), O_RDONLY | O_CLOEXEC));
        for (const auto& run : runs) {
            schema::Bytes data(run.length);
            EXPECT_EQ(::pread(image.get(), data.data(), data.size(), static_cast<off_t>(run.offset)),
                      static_cast<ssize_t>(data.size()));
            EXPECT_EQ(hash64(data), run.hash) << run.at;
            const auto length = std::min<std::size_t>(data.size(), all.size() - run.at);
            std::copy_n(data.begin(), length, all.begin() + static_cast<std::ptrdiff_t>(run.at));
        }
        return all;
    }
    std::string inode() {
        struct stat status {};
        EXPECT_EQ(::fstat(fd_.get(), &status), 0);
        std::string all(static_cast<std::size_t>(status.st_size), '?');
        EXPECT_EQ(::pread(fd_.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
        return all;
    }

    Folder folder_;
    Fd fd_{::memfd_create("memory", MFD_CLOEXEC)};
    std::unique_ptr<ImageWriter> writer_;
};

TEST_F(MemoryContents, WhatHasNotChangedIsNotRead) {
    InodeContents contents(*writer_, true);
    fill(0, 40, 'a');
    EXPECT_EQ(read_all(contents, nullptr), 40 * image_page);
    contents.see(Sight::of(fd_.get(), 64 * image_page));
    ASSERT_TRUE(contents.is_seen());
    EXPECT_EQ(read_all(contents, nullptr), 0U);
    fill(17, 1, 'b');
    Runs runs;
    EXPECT_EQ(read_all(contents, &runs), 16 * image_page);  // the block that has it
    EXPECT_EQ(contents.written(), 41 * image_page);
    EXPECT_EQ(restored(runs), inode());
}

TEST_F(MemoryContents, PagesThatComeGoAndBecomeZeros) {
    InodeContents contents(*writer_, true);
    fill(0, 20, 'a');
    read_all(contents, nullptr);
    contents.see(Sight::of(fd_.get(), 64 * image_page));
    fill(3, 1, '\0');
    fill(30, 5, 'c');
    ASSERT_EQ(
        ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 6 * image_page, 4 * image_page),
        0);
    Runs runs;
    read_all(contents, &runs);
    EXPECT_EQ(restored(runs), inode());
}

TEST_F(MemoryContents, ASecondAttemptSeesWhatTheFirstHasWritten) {
    InodeContents contents(*writer_, true);
    fill(0, 32, 'a');
    read_all(contents, nullptr);
    contents.see(Sight::of(fd_.get(), 64 * image_page));
    // Only a part of what one run has, and it has changed: the run's checksum isn't known any more.
    fill(1, 2, 'b');
    ASSERT_EQ(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4 * image_page, image_page),
              0);
    Runs first, second;
    read_all(contents, &first);
    fill(4, 1, 'd');
    read_all(contents, &second);
    EXPECT_EQ(restored(second), inode());
}

TEST_F(MemoryContents, AnInodeThatWasCutOff) {
    InodeContents contents(*writer_, true);
    fill(0, 64, 'a');
    read_all(contents, nullptr);
    contents.see(Sight::of(fd_.get(), 64 * image_page));
    ASSERT_EQ(::ftruncate(fd_.get(), 21 * image_page + 5), 0);
    // The pages are asked for that are gone: SIGBUS is caught.
    Runs none;
    EXPECT_FALSE(contents.is_unchanged(48 * image_page, 16 * image_page, &none));
    EXPECT_TRUE(none.empty());
    Runs runs;
    read_all(contents, &runs);
    EXPECT_EQ(restored(runs), inode());
}

TEST_F(MemoryContents, WithoutACopyAhead) {
    InodeContents contents(*writer_, false);
    fill(2, 7, 'a');
    fill(40, 24, 'b');
    Runs runs;
    EXPECT_EQ(read_all(contents, &runs), 31 * image_page);
    EXPECT_EQ(runs.size(), 2U);
    EXPECT_EQ(restored(runs), inode());
}

}  // namespace
}  // namespace cairn::test
