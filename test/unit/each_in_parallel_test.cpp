// The same work for many things, on all processors.
#include "common/each_in_parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace cairn {
namespace {

TEST(EachInParallel, EachOnce) {
    for (const std::size_t count : {0U, 1U, 3U, 4U, 1000U}) {
        std::vector<std::atomic<int>> times(count);
        const auto done = each_in_parallel(count, [&](std::size_t i) -> Result<> {
            ++times[i];
            return {};
        });
        EXPECT_TRUE(done);
        for (const auto& each : times) EXPECT_EQ(each, 1);
    }
}

TEST(EachInParallel, AnErrorEndsIt) {
    std::atomic<std::size_t> calls = 0;
    const auto done = each_in_parallel(100'000, [&](std::size_t i) -> Result<> {
        ++calls;
        if (i == 10) return fail("the tenth");
        // On a busy machine who fails may have to wait for a processor before he can say so.
        if (i > 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return {};
    });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().what, "the tenth");
    EXPECT_LT(calls, 100'000u);
}

TEST(EachInParallel, FewAreDoneByTheCaller) {
    std::set<std::thread::id> threads;
    EXPECT_TRUE(each_in_parallel(3, [&](std::size_t) -> Result<> {
        threads.insert(std::this_thread::get_id());
        return {};
    }));
    EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

}  // namespace
}  // namespace cairn
