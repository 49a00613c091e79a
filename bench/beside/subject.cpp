// The program that bench/peers has each system checkpoint: some processes, each with memory of its own that
// ticks, and in the first of them threads, descriptors (of pipes) and mappings.
//
//   bench_subject FOLDER MIB PROCESSES THREADS DESCRIPTORS MAPPINGS SHARE
//
// A process ticks every 0.2 ms (more seldom where there are many, so that they leave the machine idle), and
// checks a word of its memory each time. It appends lines to FOLDER/NUMBER:
//   ready PID          all is there
//   gap NS             on SIGUSR2: the longest time between two ticks since the last such line
//   dirty PAGES        on SIGUSR1: so many pages of the memory, SHARE in a hundred, have been written to
//   late REALTIME GAP  the first tick after a pause of more than 0.1 s: when, and how long it was (ns)
//   bad INDEX          a word of the memory is not what was written
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/ticks.h"

namespace {

using namespace cairn::bench;

constexpr std::size_t page = 4096, words_of_page = page / 8;

volatile std::sig_atomic_t want_gap = 0, want_dirty = 0;

[[noreturn]] void give_up(const char* what) {
    std::perror(what);
    _exit(1);
}

void* sleeps(void*) {
    for (;;) poll(nullptr, 0, -1);
}

void make_threads(long count) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, std::size_t{64} << 10);
    for (long i = 0; i < count; ++i) {
        pthread_t thread;
        if (pthread_create(&thread, &small, sleeps, nullptr) != 0) give_up("pthread_create");
    }
}

void open_descriptors(long count) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (long i = 0; i < count; i += 2) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) give_up("pipe");
    }
}

// Of a page each, no two neighbours alike, so that the kernel doesn't join them.
void make_mappings(long count) {
    if (count == 0) return;
    const std::size_t size = static_cast<std::size_t>(count) * page;
    auto* all = static_cast<char*>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (all == MAP_FAILED) give_up("mmap");
    for (std::size_t at = 0; at < size; at += page) {
        all[at] = 1;
        if (at / page % 2 == 1 && mprotect(all + at, page, PROT_READ) != 0) give_up("mprotect");
    }
}

class Memory {
  public:
    Memory(std::size_t bytes, std::uint64_t seed) : count_(bytes / 8), seed_(seed << 40) {
        void* all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) give_up("mmap");
        words_ = static_cast<std::uint64_t*>(all);
        for (std::size_t i = 0; i < count_; ++i) words_[i] = word(seed_ + i);
    }
    // None of the words that dirty() writes to. -1: it is good.
    std::int64_t check(std::uint64_t tick) const {
        std::size_t index = word(tick) % count_;
        if (index % words_of_page == 0) ++index;
        return words_[index] == word(seed_ + index) ? -1 : static_cast<std::int64_t>(index);
    }
    std::int64_t dirty(unsigned long share) {
        std::int64_t pages = 0;
        for (std::size_t i = 0; i < count_; i += words_of_page) {
            if (word(i) % 100 >= share) continue;
            ++words_[i];
            ++pages;
        }
        return pages;
    }

  private:
    std::uint64_t* words_ = nullptr;
    std::size_t count_;
    std::uint64_t seed_;
};

[[noreturn]] void tick(const char* path, Memory& memory, std::int64_t interval, unsigned long share) {
    report(path, "ready", getpid(), 0);
    std::uint64_t ticks = 0;
    std::int64_t last = now(), longest = 0;
    for (;;) {
        const timespec pause{0, interval};
        nanosleep(&pause, nullptr);
        const auto bad = memory.check(ticks++);
        const std::int64_t at = now(), gap = at - last;
        if (bad >= 0) report(path, "bad", bad, 0);
        if (gap > 100'000'000) report(path, "late", at, gap);
        longest = std::max(longest, gap);
        if (want_gap != 0) {
            want_gap = 0;
            report(path, "gap", longest, 0);
            longest = 0;
        }
        if (want_dirty != 0) {
            want_dirty = 0;
            report(path, "dirty", memory.dirty(share), 0);
        }
        last = now();
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 8) return 2;
    const std::string folder = argv[1];
    const auto mib = std::strtoull(argv[2], nullptr, 10);
    const long processes = std::atol(argv[3]);
    std::signal(SIGUSR1, [](int) { want_dirty = 1; });
    std::signal(SIGUSR2, [](int) { want_gap = 1; });
    long number = 0;
    for (long i = 1; i < processes; ++i) {
        const pid_t child = fork();
        if (child < 0) give_up("fork");
        if (child != 0) continue;
        number = i;
        break;
    }
    constexpr std::size_t tiny = std::size_t{64} << 10;
    Memory memory(mib == 0 ? tiny : mib << 20, static_cast<std::uint64_t>(number));
    if (number == 0) {
        make_mappings(std::atol(argv[6]));
        open_descriptors(std::atol(argv[5]));
        make_threads(std::atol(argv[4]));
    }
    const std::string path = folder + "/" + std::to_string(number);
    tick(path.c_str(), memory, std::max(200'000L, processes * 20'000), std::strtoul(argv[7], nullptr, 10));
}
