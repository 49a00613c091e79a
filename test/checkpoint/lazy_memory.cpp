// Memory that comes lazily after a restart, while the program does everything to it that a program can:
// threads read and write it, move it, shrink and grow it, drop it, unmap it and map other memory in its
// place, and fork, the children as well. Every word says where it belongs. Several processes do so at once
// where that is asked for.
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "support.h"

namespace {

constexpr size_t page = 4096, mib = 1 << 20;
constexpr size_t words_per_page = page / 8;

uint64_t word(uint64_t seed, uint64_t index) {
    uint64_t z = seed * 0xd1342543de82ef95ULL + index * 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    return (z ^ z >> 27) | 1;  // never zero: a page that was lost shows
}

uint64_t* map(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return static_cast<uint64_t*>(at);
}

struct Chunk {
    uint64_t* at = nullptr;
    size_t bytes = 0;
    uint64_t seed = 0;
    size_t zero_from = 0, zero_to = 0;  // page numbers: dropped, reads as zeros

    [[nodiscard]] bool is_zero(size_t number) const { return zero_from <= number && number < zero_to; }
    void check_page(size_t number) const {
        for (size_t i = number * words_per_page; i < (number + 1) * words_per_page; ++i) {
            const uint64_t expected = is_zero(number) ? 0 : word(seed, i), found = at[i];
            if (found == expected) continue;
            char text[300];
            std::snprintf(text, sizeof text,
                          "seed %#lx at %p (%zu bytes): word %zu, page %zu (zeros in %zu-%zu): %#lx, not "
                          "%#lx; then %#lx",
                          static_cast<unsigned long>(seed), static_cast<void*>(at), bytes, i, number,
                          zero_from, zero_to, static_cast<unsigned long>(found),
                          static_cast<unsigned long>(expected), static_cast<unsigned long>(at[i]));
            test::failed(__FILE__, __LINE__, text);
        }
    }
    void fill(size_t first, size_t last) const {
        for (size_t i = first * words_per_page; i < last * words_per_page; ++i) at[i] = word(seed, i);
    }
    void check_all() const {
        for (size_t number = 0; number < bytes / page; ++number) check_page(number);
    }
};

using Random = std::mt19937_64;

Chunk fresh(uint64_t seed, size_t bytes) {
    Chunk chunk{map(bytes), bytes, seed};
    chunk.fill(0, bytes / page);
    return chunk;
}

std::atomic<bool> stopping{false};

// Owns some chunks; others look at them under its lock.
class Mover {
  public:
    Mover(uint64_t seed, size_t count, size_t bytes) : random_(seed), seed_(seed << 32) {
        for (size_t i = 0; i < count; ++i) chunks_.push_back(fresh(++seed_, bytes));
    }
    void run() {
        while (!stopping) {
            {
                const std::lock_guard hold(lock);
                step();
            }
            usleep(100);
        }
    }
    void look(Random& random, size_t pages) const {
        for (size_t i = 0; i < pages; ++i) {
            const auto& chunk = chunks_[random() % chunks_.size()];
            chunk.check_page(random() % (chunk.bytes / page));
        }
    }
    void check_all() const {
        for (const auto& chunk : chunks_) chunk.check_all();
    }
    std::mutex lock;

  private:
    void step() {
        auto& chunk = chunks_[random_() % chunks_.size()];
        const size_t pages = chunk.bytes / page;
        switch (random_() % 7) {
            case 0:  // wherever the kernel likes: often where another thread has just unmapped
                resize(chunk, chunk.bytes, MREMAP_MAYMOVE);
                break;
            case 1: {  // to a certain place, the old one goes
                uint64_t* to = map(chunk.bytes);
                void* moved = mremap(chunk.at, chunk.bytes, chunk.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
                CHECK(moved == to);
                chunk.at = to;
                break;
            }
            case 2: {  // dropped
                const size_t first = random_() % pages, count = 1 + random_() % (pages - first);
                if (chunk.zero_to != chunk.zero_from) chunk.fill(chunk.zero_from, chunk.zero_to);
                CHECK(madvise(chunk.at + first * words_per_page, count * page, MADV_DONTNEED) == 0);
                chunk.zero_from = first;
                chunk.zero_to = first + count;
                chunk.check_page(first);
                chunk.check_page(first + count - 1);
                break;
            }
            case 3: {  // grows: what is new is zero; then it is ours
                const size_t more = (1 + random_() % 32) * page;
                resize(chunk, chunk.bytes + more, MREMAP_MAYMOVE);
                for (size_t i = pages * words_per_page; i < chunk.bytes / 8; ++i) CHECK(chunk.at[i] == 0);
                chunk.fill(pages, chunk.bytes / page);
                break;
            }
            case 4:  // shrinks
                if (chunk.bytes > 2 * mib) resize(chunk, chunk.bytes - 16 * page, 0);
                chunk.zero_from = std::min(chunk.zero_from, chunk.bytes / page);
                chunk.zero_to = std::min(chunk.zero_to, chunk.bytes / page);
                break;
            case 5: {  // other memory in its place, of which a part is new
                const size_t bytes = chunk.bytes;
                chunk.check_page(random_() % pages);
                if (random_() % 8 != 0) break;
                CHECK(munmap(chunk.at, bytes) == 0);
                chunk = fresh(++seed_, 2 * mib);
                break;
            }
            default:
                chunk.check_page(random_() % pages);
                for (size_t i = 0; i < 8; ++i) {
                    const size_t number = random_() % pages;
                    if (!chunk.is_zero(number)) chunk.fill(number, number + 1);
                }
        }
    }
    static void resize(Chunk& chunk, size_t bytes, int flags) {
        void* at = mremap(chunk.at, chunk.bytes, bytes, flags);
        CHECK(at != MAP_FAILED);
        chunk.at = static_cast<uint64_t*>(at);
        chunk.bytes = bytes;
    }

    Random random_;
    uint64_t seed_;
    std::vector<Chunk> chunks_;
};

using Movers = std::deque<Mover>;

void family(const Chunk& still, const Movers& movers, Random& random, int generations) {
    for (int i = 0; i < 64; ++i) still.check_page(random() % (still.bytes / page));
    for (const auto& mover : movers) mover.look(random, 64);
    if (generations == 0) return;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        random.seed(static_cast<uint64_t>(getpid()));
        // a change of the child's own is nobody else's
        madvise(still.at, still.bytes / 2, MADV_DONTNEED);
        for (size_t i = 0; i < 8; ++i) CHECK(still.at[random() % (still.bytes / 16)] == 0);
        Chunk rest = still;
        rest.zero_to = still.bytes / 2 / page;
        family(rest, movers, random, generations - 1);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

std::vector<std::unique_lock<std::mutex>> hold_all(Movers& movers) {
    std::vector<std::unique_lock<std::mutex>> result;
    for (auto& mover : movers) result.emplace_back(mover.lock);
    return result;
}

// Begins all that changes and reads memory; `serve` returns when that is to end.
void work(size_t size, size_t mover_count, const std::function<void(const Chunk&, Movers&)>& serve) {
    const Chunk still = fresh(1, size);
    Movers movers;
    for (size_t i = 0; i < mover_count; ++i) movers.emplace_back(2 + i, 32 / mover_count, size / 32);
    std::vector<std::thread> threads;
    for (auto& mover : movers) threads.emplace_back([&mover] { mover.run(); });
    threads.emplace_back([&] {  // reads
        Random random(1000);
        while (!stopping) {
            const size_t number = random() % (still.bytes / page);
            still.check_page(number);
            if (random() % 4 == 0) still.fill(number, number + 1);
            if (random() % 16 == 0) usleep(100);
        }
    });
    threads.emplace_back([&] {  // forks
        Random random(1001);
        while (!stopping) {
            // Sometimes while memory moves: then the child looks at nothing that may be on its way.
            if (random() % 2 == 0) {
                const auto hold = hold_all(movers);
                family(still, movers, random, 2);
            } else {
                family(still, {}, random, 1);
            }
            test::nap(10);
        }
    });
    serve(still, movers);
    stopping = true;
    for (auto& thread : threads) thread.join();
}

void check(const Chunk& still, Movers& movers) {
    const auto hold = hold_all(movers);
    still.check_all();
    for (const auto& mover : movers) mover.check_all();
}

// Checks itself until its parent closes the other end of the pipe.
[[noreturn]] void be_sibling(size_t size, size_t mover_count, int until) {
    work(size, mover_count, [until](const Chunk& still, Movers& movers) {
        pollfd told{until, POLLIN, 0};
        while (poll(&told, 1, 100) < 1) check(still, movers);
    });
    _exit(0);
}

}  // namespace

// lazy_memory [MIB [MOVERS [PROCESSES]]]
int main(int count, char** arguments) {
    const auto number = [&](int index, size_t otherwise) {
        return count > index ? std::strtoul(arguments[index], nullptr, 10) : otherwise;
    };
    const size_t size = number(1, 96) * mib, mover_count = number(2, 2);
    int until[2];
    CHECK(pipe(until) == 0);
    std::vector<pid_t> siblings;
    while (siblings.size() + 1 < number(3, 1)) {
        siblings.push_back(fork());
        CHECK(siblings.back() >= 0);
        if (siblings.back() > 0) continue;
        close(until[1]);
        be_sibling(size, mover_count, until[0]);
    }
    test::Orders orders;
    work(size, mover_count, [&](const Chunk& still, Movers& movers) {
        test::say("READY");
        while (orders.next()) {
            check(still, movers);
            orders.answer();
        }
    });
    close(until[1]);
    for (const pid_t sibling : siblings) {
        int status = 0;
        CHECK(waitpid(sibling, &status, 0) == sibling && status == 0);
    }
    test::say("EXIT-SUCCESS");
    return 0;
}
