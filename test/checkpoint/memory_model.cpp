// Changes its memory at random in every way, all the time, and knows what every page has to hold: writes, new
// and lost mappings, mremap(2), mprotect(2), madvise(2), a mapped file, shared memory, a file in memory that
// is cut off and grows again, children that change what they have of it.
// memory_model [SEED [REST]]: REST milliseconds after each change, so that most of the memory stays what it
// is.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t most_pages = 4096, least_pages = 256;  // of a mapping

enum class Kind {
    own,
    file,    // private, of a file whose page i holds i + 1
    shared,  // with the children, who leave it alone
    memory,  // shared, of a memfd, of which pages.size() pages are there
};

struct Mapping {
    char* start = nullptr;
    std::vector<std::uint64_t> pages;  // what each holds: 0 zeros, else what fill() makes of the number
    Kind kind = Kind::own;
    std::size_t length = 0;  // memory: of the mapping, in pages
    int fd = -1;             // memory
    bool closed = false;     // nobody may write to it

    [[nodiscard]] bool is_shared() const { return kind == Kind::shared || kind == Kind::memory; }
    [[nodiscard]] std::size_t bytes() const { return (kind == Kind::memory ? length : pages.size()) * page; }
};

std::vector<Mapping> mappings;
std::mt19937_64 chance;
int file = -1;
std::uint64_t last_number = 1 << 20;
std::atomic<bool> stop{false};
int rest_ms = 0;             // after each change
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

void open_up(Mapping& mapping) {
    if (!mapping.closed) return;
    CHECK(mprotect(mapping.start, mapping.bytes(), PROT_READ | PROT_WRITE) == 0);
    mapping.closed = false;
}

void write_some(Mapping& mapping, std::size_t most) {
    open_up(mapping);
    const std::size_t first = below(mapping.pages.size());
    const std::size_t end = std::min(mapping.pages.size(), first + 1 + below(most));
    for (std::size_t i = first; i < end; ++i) {
        mapping.pages[i] = ++last_number;
        fill(mapping.start + i * page, last_number);
    }
}

void* map_memory(Mapping& mapping, std::size_t count) {
    constexpr int both = PROT_READ | PROT_WRITE;
    switch (mapping.kind) {
        case Kind::own:
            return mmap(nullptr, count * page, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        case Kind::file:
            return mmap(nullptr, count * page, both, MAP_PRIVATE, file, 0);
        case Kind::shared:
            return mmap(nullptr, count * page, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        case Kind::memory:
            mapping.fd = memfd_create("model", MFD_CLOEXEC);
            CHECK(mapping.fd >= 0 && ftruncate(mapping.fd, static_cast<off_t>(count * page)) == 0);
            return mmap(nullptr, count * page, both, MAP_SHARED, mapping.fd, 0);
    }
    return MAP_FAILED;
}

void map_one() {
    constexpr Kind kinds[] = {Kind::own, Kind::own, Kind::own, Kind::file, Kind::shared, Kind::memory};
    Mapping mapping;
    const std::size_t count = least_pages + below(most_pages - least_pages);
    mapping.kind = kinds[below(std::size(kinds))];
    if (rest_ms > 0 && below(3) > 0) mapping.kind = Kind::own;  // so much that it is worth asking about
    void* const start = map_memory(mapping, count);
    CHECK(start != MAP_FAILED);
    if (below(3) == 0) madvise(start, count * page, MADV_HUGEPAGE);
    mapping.start = static_cast<char*>(start);
    mapping.length = count;
    mapping.pages.resize(count);
    for (std::size_t i = 0; i < count && mapping.kind == Kind::file; ++i) mapping.pages[i] = i + 1;
    write_some(mapping, count);
    mappings.push_back(std::move(mapping));
}

void unmap_one() {
    auto& mapping = mappings[below(mappings.size())];
    CHECK(munmap(mapping.start, mapping.bytes()) == 0);
    if (mapping.fd >= 0) close(mapping.fd);
    std::swap(mapping, mappings.back());
    mappings.pop_back();
}

// Its end goes, or the whole moves. Of a file in memory the end is cut off, or what was cut off before comes
// back as zeros.
void remap(Mapping& mapping) {
    const std::size_t count = least_pages + below(most_pages - least_pages);
    if (mapping.kind == Kind::memory) {
        const std::size_t left = std::min(count, mapping.length);
        CHECK(ftruncate(mapping.fd, static_cast<off_t>(left * page)) == 0);
        mapping.pages.resize(left);
    } else if (mapping.kind == Kind::own) {
        void* const moved = mremap(mapping.start, mapping.pages.size() * page, count * page, MREMAP_MAYMOVE);
        CHECK(moved != MAP_FAILED);
        mapping.start = static_cast<char*>(moved);
        mapping.pages.resize(count);
    }
}

void drop(Mapping& mapping) {
    const std::size_t first = below(mapping.pages.size());
    const std::size_t count = 1 + below(std::min<std::size_t>(64, mapping.pages.size() - first));
    // What is shared is taken from all who have it.
    const int how = mapping.is_shared() ? MADV_REMOVE : MADV_DONTNEED;
    if (mapping.is_shared()) open_up(mapping);
    CHECK(madvise(mapping.start + first * page, count * page, how) == 0);
    for (std::size_t i = first; i < first + count; ++i)
        mapping.pages[i] = mapping.kind == Kind::file ? i + 1 : 0;
}

// Until somebody writes to it, or so again.
void protect(Mapping& mapping) {
    if (mapping.closed) return open_up(mapping);
    CHECK(mprotect(mapping.start, mapping.bytes(), PROT_READ) == 0);
    CHECK(holds(mapping.start, mapping.pages[0]));
    mapping.closed = true;
}

// The same contents on pages that were written anew, and zeros that were written.
void rewrite(Mapping& mapping) {
    open_up(mapping);
    const std::size_t first = below(mapping.pages.size());
    const std::size_t end = std::min(mapping.pages.size(), first + 32);
    for (std::size_t i = first; i < end; ++i) {
        if (i % 8 == 0) mapping.pages[i] = 0;
        fill(mapping.start + i * page, mapping.pages[i]);
    }
}

void look(const Mapping& mapping, std::size_t i) {
    if (holds(mapping.start + i * page, mapping.pages[i])) return;
    constexpr const char* names[] = {"own", "file", "shared", "memory"};
    char text[200];
    std::snprintf(text, sizeof text, "FAILED page %zu of %zu at %p (%s) isn't %llu: it begins with %llx", i,
                  mapping.pages.size(), static_cast<void*>(mapping.start),
                  names[static_cast<int>(mapping.kind)], static_cast<unsigned long long>(mapping.pages[i]),
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
    std::erase_if(mappings, [](const Mapping& mapping) { return mapping.is_shared(); });
    if (mappings.empty()) _exit(0);
    for (std::size_t i = 0; i < steps; ++i) {
        write_some(mappings[below(mappings.size())], 16);
        drop(mappings[below(mappings.size())]);
        if (below(6) == 0) protect(mappings[below(mappings.size())]);
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
        if (rest_ms > 0) test::nap(rest_ms);
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
    if (count > 2) rest_ms = std::atoi(arguments[2]);
    make_file();
    for (int i = 0; i < (rest_ms > 0 ? 8 : 5); ++i) map_one();
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
