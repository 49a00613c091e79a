// Changes its memory at random in every way, all the time, and knows what every page has to hold: writes, new
// and lost mappings, mremap(2), mprotect(2), madvise(2), a mapped file, children that change what they have
// of it.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t most_pages = 4096, least_pages = 256;  // of a mapping

struct Mapping {
    char* start = nullptr;
    std::vector<std::uint64_t> pages;  // what each holds: 0 zeros, else what fill() makes of the number
    bool of_file = false;              // private, of a file whose page i holds i + 1
};

std::vector<Mapping> mappings;
std::mt19937_64 chance;
int file = -1;
std::uint64_t last_number = 1 << 20;
std::atomic<bool> stop{false};
std::atomic<int> paused{0};  // 1: the driver wants to check; 2: nothing changes

void fill(char* at, std::uint64_t number) {
    auto* words = reinterpret_cast<std::uint64_t*>(at);
    for (std::size_t i = 0; i < page / sizeof *words; ++i)
        words[i] = number == 0 ? 0 : number * 0x9e3779b97f4a7c15ULL + i * i;
}

bool holds(const char* at, std::uint64_t number) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(at);
    for (std::size_t i = 0; i < page / sizeof *words; ++i)
        if (words[i] != (number == 0 ? 0 : number * 0x9e3779b97f4a7c15ULL + i * i)) return false;
    return true;
}

std::size_t below(std::size_t end) {
    return static_cast<std::size_t>(chance() % end);
}

void write_some(Mapping& mapping, std::size_t most) {
    const std::size_t first = below(mapping.pages.size());
    const std::size_t end = std::min(mapping.pages.size(), first + 1 + below(most));
    for (std::size_t i = first; i < end; ++i) {
        mapping.pages[i] = ++last_number;
        fill(mapping.start + i * page, last_number);
    }
}

void map_one() {
    Mapping mapping;
    const std::size_t count = least_pages + below(most_pages - least_pages);
    mapping.of_file = below(4) == 0;
    void* const start =
        mapping.of_file
            ? mmap(nullptr, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0)
            : mmap(nullptr, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    if (below(3) == 0) madvise(start, count * page, MADV_HUGEPAGE);
    mapping.start = static_cast<char*>(start);
    mapping.pages.resize(count);
    for (std::size_t i = 0; i < count && mapping.of_file; ++i) mapping.pages[i] = i + 1;
    write_some(mapping, count);
    mappings.push_back(std::move(mapping));
}

void unmap_one() {
    auto& mapping = mappings[below(mappings.size())];
    CHECK(munmap(mapping.start, mapping.pages.size() * page) == 0);
    std::swap(mapping, mappings.back());
    mappings.pop_back();
}

// Its end goes, or the whole moves.
void remap(Mapping& mapping) {
    if (mapping.of_file) return;
    const std::size_t count = least_pages + below(most_pages - least_pages);
    void* const moved = mremap(mapping.start, mapping.pages.size() * page, count * page, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    mapping.start = static_cast<char*>(moved);
    mapping.pages.resize(count);
}

void drop(Mapping& mapping) {
    const std::size_t first = below(mapping.pages.size());
    const std::size_t count = 1 + below(std::min<std::size_t>(64, mapping.pages.size() - first));
    CHECK(madvise(mapping.start + first * page, count * page, MADV_DONTNEED) == 0);
    for (std::size_t i = first; i < first + count; ++i) mapping.pages[i] = mapping.of_file ? i + 1 : 0;
}

void protect(Mapping& mapping) {
    const std::size_t length = mapping.pages.size() * page;
    CHECK(mprotect(mapping.start, length, PROT_READ) == 0);
    CHECK(holds(mapping.start, mapping.pages[0]));
    CHECK(mprotect(mapping.start, length, PROT_READ | PROT_WRITE) == 0);
}

// The same contents on pages that were written anew, and zeros that were written.
void rewrite(Mapping& mapping) {
    const std::size_t first = below(mapping.pages.size());
    const std::size_t end = std::min(mapping.pages.size(), first + 32);
    for (std::size_t i = first; i < end; ++i) {
        if (i % 8 == 0) mapping.pages[i] = 0;
        fill(mapping.start + i * page, mapping.pages[i]);
    }
}

void look(const Mapping& mapping, std::size_t i) {
    if (holds(mapping.start + i * page, mapping.pages[i])) return;
    char text[200];
    std::snprintf(text, sizeof text, "FAILED page %zu of %zu at %p (%s) isn't %llu: it begins with %llx", i,
                  mapping.pages.size(), static_cast<void*>(mapping.start), mapping.of_file ? "file" : "none",
                  static_cast<unsigned long long>(mapping.pages[i]),
                  *reinterpret_cast<unsigned long long*>(mapping.start + i * page));
    test::say(text);
    _exit(1);
}

void look_at_all() {
    for (const auto& mapping : mappings)
        for (std::size_t i = 0; i < mapping.pages.size(); ++i) look(mapping, i);
}

void look_at_some() {
    for (int i = 0; i < 100; ++i) {
        const auto& mapping = mappings[below(mappings.size())];
        look(mapping, below(mapping.pages.size()));
    }
}

// A child that changes what it has, beside a parent that does the same, for a moment or for long.
void fork_one(std::vector<pid_t>& children) {
    while (children.size() >= 2) {
        int status = -1;
        CHECK(waitpid(children.front(), &status, 0) == children.front());
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        children.erase(children.begin());
    }
    const std::size_t steps = below(200);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) return children.push_back(child);
    for (std::size_t i = 0; i < steps; ++i) {
        write_some(mappings[below(mappings.size())], 16);
        drop(mappings[below(mappings.size())]);
        look_at_some();
        test::nap(1);
    }
    look_at_all();
    _exit(0);
}

void change(std::vector<pid_t>& children) {
    const auto one = [] -> Mapping& { return mappings[below(mappings.size())]; };
    switch (below(40)) {
        case 0:
            if (mappings.size() < 8) map_one();
            break;
        case 1:
            if (mappings.size() > 3) unmap_one();
            break;
        case 2:
            remap(one());
            break;
        case 3:
            fork_one(children);
            break;
        case 4:
        case 5:
            drop(one());
            break;
        case 6:
            protect(one());
            break;
        case 7:
            rewrite(one());
            break;
        default:
            write_some(one(), below(20) == 0 ? 512 : 4);
    }
}

void work() {
    std::vector<pid_t> children;
    while (!stop) {
        change(children);
        look_at_some();
        if (paused == 1) paused = 2;
        while (paused == 2) test::nap(1);
    }
    for (const pid_t child : children) {
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

void make_file() {
    char name[] = "memory-XXXXXX";
    file = mkstemp(name);
    CHECK(file >= 0);
    std::vector<char> contents(most_pages * page);
    for (std::size_t i = 0; i < most_pages; ++i) fill(&contents[i * page], i + 1);
    CHECK(write(file, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size()));
}

}  // namespace

int main(int count, char** arguments) {
    chance.seed(count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1);
    make_file();
    for (int i = 0; i < 5; ++i) map_one();
    std::thread worker(work);
    test::serve([&](bool last) {
        if (last) {
            stop = true;
            worker.join();
        } else {
            paused = 1;
            while (paused != 2) test::nap(1);
        }
        look_at_all();
        paused = 0;
    });
}
