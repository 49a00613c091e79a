#include "common/image/early_sync.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace cairn {
namespace {

bool free_memory_is_scarce() {
    constexpr unsigned long part = 16;
    struct sysinfo machine {};
    return ::sysinfo(&machine) == 0 && machine.freeram < machine.totalram / part;
}

}  // namespace

EarlySync::EarlySync(IsScarce is_scarce)
    : is_scarce_(is_scarce ? std::move(is_scarce) : free_memory_is_scarce) {}

void EarlySync::wrote(int file, std::uint64_t bytes) {
    constexpr std::uint64_t step = std::uint64_t{64} << 20;
    auto asked = asked_.load();
    if (bytes < asked + step || !asked_.compare_exchange_strong(asked, bytes)) return;
    const std::scoped_lock lock(mutex_);
    wanted_ = start(file);
    changed_.notify_one();
}

bool EarlySync::start(int file) {
    if (thread_.joinable() || failed_to_start_) return !failed_to_start_;
    file_.reset(::fcntl(file, F_DUPFD_CLOEXEC, 0));
    failed_to_start_ = !file_;
    if (!file_) return false;
    try {
        thread_ = std::jthread([this] { run(); });
    } catch (const std::system_error&) {  // RLIMIT_NPROC
        failed_to_start_ = true;
        file_.reset();
    }
    return !failed_to_start_;
}

void EarlySync::run() {
    for (std::unique_lock lock(mutex_);;) {
        changed_.wait(lock, [this] { return wanted_ || ends_; });
        if (!wanted_) return;
        wanted_ = false;
        lock.unlock();
        const int error = ::fdatasync(file_.get()) == 0 ? 0 : errno;
        if (is_scarce_()) ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);  // dirty pages stay
        lock.lock();
        if (error_ == 0) error_ = error;
    }
}

int EarlySync::stop() {
    if (thread_.joinable()) {
        {
            const std::scoped_lock lock(mutex_);
            ends_ = true;
            changed_.notify_one();
        }
        thread_.join();
        file_.reset();
        ends_ = false;
    }
    return std::exchange(error_, 0);
}

}  // namespace cairn
