// The same work for many things, on all processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

#include "common/error.h"
#include "common/helper_threads.h"

namespace cairn {

// How many threads are useful: as many as there are processors for what computes, and more for what waits for
// a disk, which takes many requests at once.
enum class Work { computes, waits_for_disk };

// Calls `work(index)`, which returns a Result<>, once for each index below `count`, in no order, by the
// caller and by helpers. Fewer than `few` the caller does alone: a thread costs as much as some small files
// of /proc. The first error that occurs ends it. `work` has to be thread-safe between different indices.
template <class Call>
[[nodiscard]] Result<> each_in_parallel(std::size_t count, const Call& work, Work kind = Work::computes,
                                        std::size_t few = 4) {
    constexpr std::size_t most = 8;
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    Result<> result;
    const auto help = [&] {
        for (std::size_t index = next++; index < count; index = next++) {
            Result<> done = work(index);
            if (done) continue;
            next = count;
            const std::scoped_lock lock(mutex);
            if (result) result = std::move(done);
        }
    };
    const std::size_t useful = kind == Work::waits_for_disk
                                   ? most
                                   : std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most);
    {
        const auto helpers = helper_threads(count < few ? 0 : std::min(useful, count) - 1, help);
        help();
    }
    return result;
}

}  // namespace cairn
