// A file that is brought to the disk while more is written to it.
#include "common/image/early_sync.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn {
namespace {

constexpr std::uint64_t mib = 1 << 20;

// On a disk: what is in /tmp may be memory, which has no other place. It has no name any more.
Fd new_file() {
    std::string name = (std::filesystem::current_path() / "early-sync-XXXXXX").string();
    Fd file(::mkstemp(name.data()));
    ::unlink(name.c_str());
    return file;
}

void write_mib(int file, std::uint64_t count, EarlySync& sync) {
    const std::vector<char> some(mib, 'x');
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(::write(file, some.data(), some.size()), static_cast<ssize_t>(some.size()));
        sync.wrote(file, (i + 1) * mib);
    }
}

std::size_t cached_pages(int file, std::uint64_t bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    std::vector<unsigned char> pages(bytes / 4096);
    EXPECT_EQ(::mincore(at, bytes, pages.data()), 0);
    ::munmap(at, bytes);
    return static_cast<std::size_t>(std::ranges::count_if(pages, [](auto page) { return (page & 1) != 0; }));
}

TEST(EarlySync, KeepsWhatIsOnTheDiskCachedUnlessMemoryIsScarce) {
    for (const bool scarce : {false, true}) {
        const Fd file = new_file();
        ASSERT_TRUE(file);
        EarlySync sync([scarce] { return scarce; });
        write_mib(file.get(), 128, sync);
        EXPECT_EQ(sync.stop(), 0);
        const auto cached = cached_pages(file.get(), 128 * mib);
        if (scarce)
            EXPECT_LT(cached, 128 * mib / 4096);
        else
            EXPECT_EQ(cached, 128 * mib / 4096);
    }
}

// Nothing can be synced in a pipe: fdatasync(2) is EINVAL.
TEST(EarlySync, TellsAnErrorOnceAndCanBeginAgain) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const Fd in(ends[0]), out(ends[1]);
    EarlySync sync;
    sync.wrote(out.get(), 64 * mib);
    EXPECT_EQ(sync.stop(), EINVAL);
    EXPECT_EQ(sync.stop(), 0);
    sync.wrote(out.get(), 100 * mib);  // too little since
    EXPECT_EQ(sync.stop(), 0);
    sync.wrote(out.get(), 128 * mib);
    EXPECT_EQ(sync.stop(), EINVAL);
}

TEST(EarlySync, NothingOfLittleOrWithoutADescriptor) {
    EarlySync sync;
    sync.wrote(-1, 63 * mib);
    EXPECT_EQ(sync.stop(), 0);
    sync.wrote(-1, 64 * mib);  // no descriptor can be had for that: nothing is done
    EXPECT_EQ(sync.stop(), 0);
}

}  // namespace
}  // namespace cairn
