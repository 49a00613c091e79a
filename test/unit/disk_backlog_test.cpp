// --compress=auto: what is compressed, and how, by how far the disk is behind.
#include <gtest/gtest.h>

#include "common/image/backlog.h"

namespace cairn::test {
namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr auto at_once = std::chrono::nanoseconds(1);

TEST(DiskBacklog, ByWhatTheKernelTells) {
    std::int64_t behind = 0;
    std::uint64_t asked = 0;
    DiskBacklog backlog([&](int, std::uint64_t begin, std::uint64_t end) {
        EXPECT_LE(end - begin, 512 * mib);
        ++asked;
        return behind;
    });
    EXPECT_EQ(backlog.best().codec, Codec::none);
    const auto write = [&](std::uint64_t end) {
        for (std::uint64_t at = 0; at < 8; ++at) backlog.wrote(0, end, mib, at_once);
    };
    write(8 * mib);
    EXPECT_EQ(backlog.best().codec, Codec::none);
    behind = 100 * mib;
    write(16 * mib);
    EXPECT_EQ(backlog.best().codec, Codec::lz4);
    behind = 400 * mib;
    write(1000 * mib);
    EXPECT_EQ(backlog.best(), (Compression{Codec::zstd, zstd_usual_level, false}));
    behind = 0;
    write(1008 * mib);
    EXPECT_EQ(backlog.best().codec, Codec::none);
    EXPECT_EQ(asked, 4U);
}

TEST(DiskBacklog, WhereItDoesNotTellByHowLongAWriteTakes) {
    DiskBacklog backlog([](int, std::uint64_t, std::uint64_t) { return std::int64_t{-1}; });
    backlog.wrote(0, 16 * mib, 16 * mib, std::chrono::milliseconds(10));
    EXPECT_EQ(backlog.best().codec, Codec::none);
    backlog.wrote(0, 32 * mib, 16 * mib, std::chrono::milliseconds(200));
    EXPECT_EQ(backlog.best().codec, Codec::lz4);
    backlog.wrote(0, 48 * mib, 16 * mib, std::chrono::milliseconds(10));
    EXPECT_EQ(backlog.best().codec, Codec::none);
}

}  // namespace
}  // namespace cairn::test
