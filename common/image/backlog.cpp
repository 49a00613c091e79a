#include "common/image/backlog.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/image/format.h"

namespace cairn {
namespace {

// The disk has work for some hundredths of a second, or for some tenths: longer than it takes to compress the
// next chunk, by lz4 or by zstd.
constexpr std::uint64_t some = 64 << 20, much = 384 << 20;
// How often the kernel is asked, which looks at each page of the stretch: what is older is hardly ever left.
constexpr std::uint64_t step = 8 << 20, stretch = 512 << 20;
// Where the kernel doesn't tell: slower than any copy to the page cache, so that who writes is being held up
// (balance_dirty_pages(), mm/page-writeback.c).
constexpr double held_up = 250e6;  // bytes per second

// linux/mman.h of 6.5; Debian 12's headers are older.
struct CachestatRange {
    std::uint64_t offset, length;
};
struct Cachestat {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

std::int64_t ask_kernel(int fd, std::uint64_t begin, std::uint64_t end) {
    constexpr long cachestat = 451;
    CachestatRange range{begin, end - begin};
    Cachestat found{};
    if (::syscall(cachestat, fd, &range, &found, 0) != 0) return -1;
    return static_cast<std::int64_t>((found.dirty + found.writeback) * image_page);
}

}  // namespace

DiskBacklog::DiskBacklog(Ask ask) : ask_(ask ? std::move(ask) : ask_kernel) {}

void DiskBacklog::wrote(int fd, std::uint64_t end, std::uint64_t bytes, std::chrono::nanoseconds took) {
    took_ns_ += took.count();
    const auto before = written_.fetch_add(bytes);
    if (before / step == (before + bytes) / step) return;
    const auto ns = took_ns_.exchange(0);
    const auto behind = untold_ ? -1 : ask_(fd, end - std::min(end, stretch), end);
    if (behind >= 0) {
        behind_ = static_cast<std::uint64_t>(behind);
        return;
    }
    untold_ = true;
    behind_ = static_cast<double>(step) / (static_cast<double>(std::max<std::int64_t>(ns, 1)) / 1e9) < held_up
                  ? some
                  : 0;
}

Compression DiskBacklog::best() const {
    const std::uint64_t behind = behind_;
    if (behind >= much) return {Codec::zstd, zstd_usual_level, false};
    if (behind >= some) return {Codec::lz4, 0, false};
    return {};
}

}  // namespace cairn
