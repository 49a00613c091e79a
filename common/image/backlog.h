// How far the disk is behind what has been written to a file: --compress=auto compresses where it is, for
// then the processors have nothing better to do (docs/decisions/0038-compression.md).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "common/compression.h"

namespace cairn {

class DiskBacklog {
  public:
    // Bytes of [begin, end) of a file that were written and are not on the disk yet; negative: the kernel
    // doesn't tell (cachestat(2) came with Linux 6.5).
    using Ask = std::function<std::int64_t(int fd, std::uint64_t begin, std::uint64_t end)>;
    explicit DiskBacklog(Ask ask = {});

    // So much was written, up to byte `end`, and write(2) took so long. The kernel is asked now and then.
    // Thread-safe.
    void wrote(int fd, std::uint64_t end, std::uint64_t bytes, std::chrono::nanoseconds took);

    // What the next bytes are best compressed with. Thread-safe.
    [[nodiscard]] Compression best() const;

  private:
    Ask ask_;
    std::atomic<std::uint64_t> written_ = 0;  // since the last look
    std::atomic<std::int64_t> took_ns_ = 0;   // for that
    std::atomic<std::uint64_t> behind_ = 0;   // bytes
    std::atomic<bool> untold_ = false;        // the kernel doesn't tell
};

}  // namespace cairn
