// Memory of which an order has some pages in a hundred written to: a hundred mebibytes that stay what they
// are, and beside them a little of every kind that a copy of hardly anything could get wrong: pages that are
// locked, kept from forks, emptied by them, not to be read, a mapping that is shared.
//
//   hardly_written plain|marked|family
//
// A family is two processes: what the first one had before its fork they have in common, until one of them
// writes to it, and each has memory of its own beside it, most likely at one address.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdint>
#include <string>

#include "support.h"

namespace {

using namespace test;

constexpr std::size_t page = 4096, words_of_page = page / 8, large = std::size_t{96} << 20,
                      small = std::size_t{2} << 20;

// Its words tell of each page how often it was written to, which is counted apart from them.
class Memory {
  public:
    Memory(std::size_t bytes, int flags, std::uint64_t seed)
        : pages_(bytes / page), seed_(seed), written_(pages_, 0) {
        void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        CHECK(at != MAP_FAILED);
        words_ = static_cast<std::uint64_t*>(at);
        for (std::size_t i = 0; i < pages_; ++i) write(i);
    }
    [[nodiscard]] void* at() const { return words_; }

    // What this process writes from now on is nothing that the other one writes.
    void is_of_child() { step_ = 1000; }

    void write_some(unsigned share, std::uint64_t round) {
        for (std::size_t i = 0; i < pages_; ++i) {
            if (mix(i, round) % 100 >= share) continue;
            written_[i] += step_;
            write(i);
        }
    }
    void check() const {
        for (std::size_t i = 0; i < pages_; ++i)
            for (std::size_t j = 0; j < words_of_page; j += 37)
                CHECK(words_[i * words_of_page + j] == word(i, j));
    }

  private:
    static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
        std::uint64_t z = (a + 1) * 0x9e3779b97f4a7c15 + b * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    [[nodiscard]] std::uint64_t word(std::size_t i, std::size_t j) const {
        return mix(i * words_of_page + j, seed_ + written_[i]);
    }
    void write(std::size_t i) {
        for (std::size_t j = 0; j < words_of_page; ++j) words_[i * words_of_page + j] = word(i, j);
    }

    std::size_t pages_;
    std::uint64_t seed_;
    std::uint32_t step_ = 1;
    std::vector<std::uint32_t> written_;
    std::uint64_t* words_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
    constexpr int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    const std::string kind = argc > 1 ? argv[1] : "plain";
    std::vector<Memory> all;
    all.reserve(8);
    all.emplace_back(large, anonymous, 1);
    if (kind != "family") all.emplace_back(small, MAP_SHARED | MAP_ANONYMOUS, 2);
    Memory& unreadable = all.emplace_back(small, anonymous, 3);
    CHECK(mprotect(unreadable.at(), small, PROT_NONE) == 0);
    if (kind == "marked") {
        CHECK(madvise(all.emplace_back(small, anonymous, 4).at(), small, MADV_DONTFORK) == 0);
        CHECK(madvise(all.emplace_back(small, anonymous, 5).at(), small, MADV_WIPEONFORK) == 0);
        CHECK(mlock(all.emplace_back(small / 32, anonymous, 6).at(), small / 32) == 0);
    }
    bool is_child = false;
    if (kind == "family") {
        const pid_t child = fork();
        CHECK(child >= 0);
        is_child = child == 0;
        if (is_child)
            for (auto& each : all) each.is_of_child();
        all.emplace_back(large / 4, anonymous, is_child ? 7 : 8);
    }
    say("READY");
    Orders orders;
    for (std::uint64_t round = 0; orders.next(); ++round, orders.answer()) {
        unsigned share = 0;
        const char* const order = orders.last() + std::strlen("check ");
        if (std::strncmp(order, "limit", 5) == 0) {
            const rlimit none{0, 0};
            CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
        }
        if (const char* const asked = std::strstr(order, "write-"); asked != nullptr)
            share = static_cast<unsigned>(std::strtoul(asked + 6, nullptr, 10));
        CHECK(mprotect(unreadable.at(), small, PROT_READ | PROT_WRITE) == 0);
        for (auto& each : all) {
            each.check();
            each.write_some(share, round);
        }
        CHECK(mprotect(unreadable.at(), small, PROT_NONE) == 0);
    }
    say("EXIT-SUCCESS");
    if (kind == "family" && !is_child) CHECK(wait(nullptr) > 0);
}
