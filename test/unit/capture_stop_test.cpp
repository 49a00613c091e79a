// What a stop says of whom it waits for.
#include <gtest/gtest.h>
#include <unistd.h>

#include "capture/stop/stopping.h"

namespace cairn::capture {
namespace {

// A message to the coordinator takes 256 KiB, and a process may have more threads than that has words for.
TEST(StopIsWaitingFor, OfThousandsOfThreadsAFewAreNamed) {
    SeizedThreads threads;
    const pid_t pid = ::getpid();
    constexpr int count = 10'000;
    for (int i = 0; i < count; ++i) threads.put({.pid = pid, .tid = (1 << 22) + i, .still = i < 100});
    const auto words = where_it_runs(threads, pid);
    EXPECT_LT(words.size(), 1000U);
    EXPECT_NE(words.find("thread 4194404 "), std::string::npos) << words;
    EXPECT_TRUE(words.ends_with(" and 9892 other threads")) << words;
}

TEST(StopIsWaitingFor, FewThreadsAreNamedEach) {
    SeizedThreads threads;
    const pid_t pid = ::getpid();
    threads.put({.pid = pid, .tid = pid});
    threads.put({.pid = pid, .tid = pid + 1, .still = true});
    const auto words = where_it_runs(threads, pid);
    EXPECT_TRUE(words.starts_with(fmt::format("thread {} in state R", pid))) << words;
    EXPECT_EQ(words.find("other"), std::string::npos) << words;
}

}  // namespace
}  // namespace cairn::capture
