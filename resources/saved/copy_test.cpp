// Copies that are brought up to date: whatever happens to the file in between, the copy is what it is now.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "common/fd.h"
#include "resources/saved/capture_copy.h"

namespace cairn::capture {
namespace {

Fd unnamed() {
    return Fd(::open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
}

std::string all_of(int file) {
    struct stat status {};
    ::fstat(file, &status);
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    EXPECT_EQ(::pread(file, text.data(), text.size(), 0), status.st_size);
    return text;
}

const CopyTold quiet = [](std::uint64_t) { return Result<>(); };

TEST(SavedCopy, IsWhatTheFileIsNow) {
    std::mt19937_64 random(std::random_device{}());
    for (int tries = 0; tries < 20; ++tries) {
        const Fd from = unnamed(), to = unnamed();
        BlockCopy copy;
        for (int round = 0; round < 12; ++round) {
            for (int n = static_cast<int>(random() % 6); n > 0; --n) {
                const off_t at = static_cast<off_t>(random() % (BlockCopy::block * 5));
                const off_t length = static_cast<off_t>(random() % (BlockCopy::block * 2) + 1);
                switch (random() % 4) {
                    case 0:
                        ASSERT_EQ(::ftruncate(from.get(), at), 0);
                        break;
                    case 1:
                        (void)::fallocate(from.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length);
                        break;
                    default: {
                        std::string text(static_cast<std::size_t>(length), static_cast<char>(random() % 3));
                        ASSERT_EQ(::pwrite(from.get(), text.data(), text.size(), at), length);
                    }
                }
            }
            struct stat status {};
            ASSERT_EQ(::fstat(from.get(), &status), 0);
            const auto size = static_cast<std::uint64_t>(status.st_size);
            const auto done = copy.update(from.get(), to.get(), size, random() % 3, quiet);
            ASSERT_TRUE(done) << done.error().what;
            ASSERT_EQ(all_of(from.get()), all_of(to.get())) << "try " << tries << ", round " << round;
            // Nothing has changed: nothing is written.
            const auto again = copy.update(from.get(), to.get(), size, 0, quiet);
            ASSERT_TRUE(again);
            EXPECT_EQ(*again, 0U);
        }
    }
}

TEST(SavedCopy, HolesStayAndALargeOneIsSharedAmongThreads) {
    const Fd from = unnamed(), to = unnamed();
    constexpr std::uint64_t size = std::uint64_t{200} << 20;
    ASSERT_EQ(::ftruncate(from.get(), size), 0);
    const std::string text(100'000, 'x');
    for (const off_t at : {off_t{5}, off_t{90} << 20, static_cast<off_t>(size - text.size())})
        ASSERT_EQ(::pwrite(from.get(), text.data(), text.size(), at), static_cast<ssize_t>(text.size()));
    BlockCopy copy;
    ASSERT_TRUE(copy.update(from.get(), to.get(), size, 3, quiet));
    EXPECT_EQ(all_of(from.get()), all_of(to.get()));
    struct stat status {};
    ASSERT_EQ(::fstat(to.get(), &status), 0);
    EXPECT_LT(status.st_blocks, 2048);
    ASSERT_EQ(::pwrite(from.get(), "y", 1, 100'000'000), 1);
    const auto done = copy.update(from.get(), to.get(), size, 3, quiet);
    ASSERT_TRUE(done);
    EXPECT_EQ(*done, BlockCopy::block);
    EXPECT_EQ(all_of(from.get()), all_of(to.get()));
}

TEST(SavedCopy, AFullDiskAndWhoGivesUpAreErrors) {
    const Fd from = unnamed(), full(::open("/dev/full", O_RDWR | O_CLOEXEC)), to = unnamed();
    const std::string text(1000, 'x');
    ASSERT_EQ(::pwrite(from.get(), text.data(), text.size(), 0), 1000);
    EXPECT_FALSE(BlockCopy().update(from.get(), full.get(), 1000, 0, quiet));
    const auto given_up = BlockCopy().update(from.get(), to.get(), 1000, 0,
                                             [](std::uint64_t) -> Result<> { return fail("enough"); });
    ASSERT_FALSE(given_up);
    EXPECT_EQ(given_up.error().what, "enough");
}

}  // namespace
}  // namespace cairn::capture
