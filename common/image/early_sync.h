// Brings a file to the disk while more is written to it, so that little is left for the fsync(2) at the end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "common/fd.h"

namespace cairn {

// Starting the writeback (sync_file_range(2)) is not enough: a disk has a cache of its own, and a virtual one
// the memory of its host, which is emptied when it is asked to (fdatasync(2)): of 1 GiB that took as long as
// all the writing before (docs/decisions/0046-early-sync.md). A thread asks after each 64 MiB.
//
// What is on the disk stays in the page cache, for whoever restarts soon, unless free memory is scarce: other
// pages of the machine's would have to go for it.
class EarlySync {
  public:
    using IsScarce = std::function<bool()>;
    // `is_scarce`: whether free memory is; by default less than a sixteenth of all is (sysinfo(2)).
    explicit EarlySync(IsScarce is_scarce = {});
    EarlySync(const EarlySync&) = delete;
    EarlySync& operator=(const EarlySync&) = delete;
    ~EarlySync() { (void)stop(); }

    // So many bytes have been written to the file by now. Thread-safe. Where there can be no thread or
    // descriptor for it nothing is done.
    void wrote(int file, std::uint64_t bytes);

    // Waits for what was asked for. 0, or the errno of the fdatasync(2) that failed first since the last
    // stop(): the kernel tells an error of a file that is open once (errseq_t, lib/errseq.c), and fsync(2)
    // wouldn't.
    [[nodiscard]] int stop();

  private:
    [[nodiscard]] bool start(int file);
    void run();

    IsScarce is_scarce_;
    std::atomic<std::uint64_t> asked_ = 0;  // bytes
    Fd file_;
    std::jthread thread_;

    std::mutex mutex_;  // of all that follows, and of starting
    std::condition_variable changed_;
    bool wanted_ = false, ends_ = false, failed_to_start_ = false;
    int error_ = 0;
};

}  // namespace cairn
