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
    start(file);
    ++wakes_;
    wakes_.notify_one();
}

void EarlySync::start(int file) {
    const std::scoped_lock lock(mutex_);
    if (thread_.joinable() || failed_to_start_) return;
    file_.reset(::fcntl(file, F_DUPFD_CLOEXEC, 0));
    failed_to_start_ = !file_;
    if (!file_) return;
    ends_ = false;
    try {
        thread_ = std::jthread([this] { run(); });
    } catch (const std::system_error&) {  // RLIMIT_NPROC
        failed_to_start_ = true;
        file_.reset();
    }
}

void EarlySync::run() {
    for (std::uint32_t done = 0; !ends_;) {
        const std::uint32_t wakes = wakes_;
        if (wakes == done) {
            wakes_.wait(done);
            continue;
        }
        done = wakes;
        int none = 0;
        if (::fdatasync(file_.get()) != 0) error_.compare_exchange_strong(none, errno);
        if (is_scarce_()) ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);  // dirty pages stay
    }
}

int EarlySync::stop() {
    if (thread_.joinable()) {
        ends_ = true;
        ++wakes_;
        wakes_.notify_one();
        thread_.join();
        file_.reset();
    }
    return error_.exchange(0);
}

}  // namespace cairn
