// The program that bench/run checkpoints: fills MIB of private (or shared) memory, then ticks every 0.2 ms,
// and at each tick checks a word of a page picked at random. memory FILE MIB [shared]: appends lines to FILE:
//   ready PID               the memory is filled
//   fork NS                 on SIGUSR1: how long a bare fork() of this process took, until it returned here
//   gap NS                  on SIGUSR2: the longest time between two ticks since the last such line
//   late REALTIME GAP       the first tick after a pause of more than 0.1 s: when, and how long it was (ns)
//   bad INDEX               a word of the memory is not what was written
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "bench/ticks.h"

namespace {

using namespace cairn::bench;

volatile std::sig_atomic_t want_fork = 0, want_gap = 0;

// By the bare system call: libcairn's wrapper of fork() is measured elsewhere.
std::int64_t fork_time() {
    const std::int64_t began = now(CLOCK_MONOTONIC);
    const long pid = syscall(SYS_fork);
    if (pid == 0) syscall(SYS_exit_group, 0);
    const std::int64_t took = now(CLOCK_MONOTONIC) - began;
    while (waitpid(static_cast<pid_t>(pid), nullptr, 0) < 0) {
    }
    return took;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3 && argc != 4) return 2;
    const int kind = argc == 4 ? MAP_SHARED : MAP_PRIVATE;
    const std::size_t count = std::strtoull(argv[2], nullptr, 10) << 17;
    void* memory = mmap(nullptr, count * 8, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    auto* words = static_cast<std::uint64_t*>(memory);
    for (std::size_t i = 0; i < count; ++i) words[i] = word(i);
    std::signal(SIGUSR1, [](int) { want_fork = 1; });
    std::signal(SIGUSR2, [](int) { want_gap = 1; });
    report(argv[1], "ready", getpid(), 0);
    std::uint64_t tick = 0;
    std::int64_t last = now(), longest = 0;
    for (;;) {
        const timespec pause{0, 200'000};
        nanosleep(&pause, nullptr);
        const std::size_t index = word(tick++) % count;
        const bool good = words[index] == word(index);
        const std::int64_t at = now(), gap = at - last;
        if (!good) report(argv[1], "bad", static_cast<std::int64_t>(index), 0);
        if (gap > 100'000'000) report(argv[1], "late", at, gap);
        longest = std::max(longest, gap);
        if (want_fork != 0) {
            want_fork = 0;
            report(argv[1], "fork", fork_time(), 0);
        }
        if (want_gap != 0) {
            want_gap = 0;
            report(argv[1], "gap", longest, 0);
            longest = 0;
        }
        last = now();
    }
}
