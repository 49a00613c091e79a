// Memory of every kind: private and shared anonymous, holes, guard pages, huge and many areas, brk, files
// mapped both ways, a deleted mapped file, memfd; and what a restart must not change: fresh pages are zero,
// mremap grows.
// rain: soak
// narrow: none
// heirs: none
// ci: virtual userns
// still: exact user
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support.h"

namespace {
constexpr size_t page = 4096;

unsigned char* map(size_t length, int prot, int flags, int fd = -1, off_t offset = 0) {
    void* at = mmap(nullptr, length, prot, flags, fd, offset);
    CHECK(at != MAP_FAILED);
    return static_cast<unsigned char*>(at);
}

unsigned char value(size_t i, unsigned seed) {
    return static_cast<unsigned char>((i * 2654435761U + seed) >> 11);
}

void fill(unsigned char* at, size_t length, unsigned seed) {
    for (size_t i = 0; i < length; ++i) at[i] = value(i, seed);
}
bool holds(const unsigned char* at, size_t length, unsigned seed) {
    for (size_t i = 0; i < length; ++i)
        if (at[i] != value(i, seed)) return false;
    return true;
}
bool zero(const unsigned char* at, size_t length) {
    for (size_t i = 0; i < length; ++i)
        if (at[i] != 0) return false;
    return true;
}

// Whether an access faults, asked of the kernel and not by a signal.
bool readable(const unsigned char* at) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    const bool result = write(ends[1], at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return result;
}
bool resident(unsigned char* at) {
    unsigned char vector = 0;
    CHECK(mincore(at, page, &vector) == 0);
    return (vector & 1) != 0;
}

int file(const char* name, size_t length, unsigned seed) {
    const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    auto* bytes = static_cast<unsigned char*>(std::malloc(length));
    fill(bytes, length, seed);
    CHECK(write(fd, bytes, length) == static_cast<ssize_t>(length));
    std::free(bytes);
    return fd;
}
bool file_holds(const char* name, size_t offset, size_t length, unsigned seed) {
    const int fd = open(name, O_RDONLY);
    CHECK(fd >= 0);
    auto* bytes = static_cast<unsigned char*>(std::malloc(length));
    CHECK(pread(fd, bytes, length, static_cast<off_t>(offset)) == static_cast<ssize_t>(length));
    close(fd);
    const bool result = holds(bytes, length, seed);
    std::free(bytes);
    return result;
}

constexpr int rw = PROT_READ | PROT_WRITE;
constexpr size_t gib = 1UL << 30;

unsigned char* anonymous(size_t length, unsigned seed, int flags = MAP_PRIVATE) {
    unsigned char* area = map(length, rw, flags | MAP_ANONYMOUS);
    fill(area, length, seed);
    return area;
}

// What is given back comes as zeros, what grows is zero at the end.
test::Check private_memory() {
    constexpr size_t size = 3 << 20;
    unsigned char* area = anonymous(size, 1);
    return [=](bool) mutable {
        CHECK(holds(area, size, 1));
        unsigned char* given = area + (2 << 20);
        CHECK(madvise(given, 8 * page, MADV_DONTNEED) == 0 && zero(given, 8 * page));
        fill(area, size, 1);
        void* grown = mremap(area, size, 4 << 20, MREMAP_MAYMOVE);
        CHECK(grown != MAP_FAILED);
        area = static_cast<unsigned char*>(grown);
        CHECK(holds(area, size, 1) && zero(area + size, 1 << 20));
        grown = mremap(area, 4 << 20, size, MREMAP_MAYMOVE);
        CHECK(grown != MAP_FAILED);
        area = static_cast<unsigned char*>(grown);
    };
}

test::Check shared_memory() {
    const unsigned char* shared = anonymous(1 << 20, 2, MAP_SHARED);
    return [=](bool) { CHECK(holds(shared, 1 << 20, 2)); };
}

// 1 GiB of which three pages were touched: the image must not hold the rest.
test::Check sparse_memory() {
    unsigned char* sparse = map(gib, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    CHECK(madvise(sparse, gib, MADV_NOHUGEPAGE) == 0);
    for (const size_t at : {size_t{0}, gib / 2, gib - page}) fill(sparse + at, page, 3);
    return [=](bool) {
        for (const size_t at : {size_t{0}, gib / 2, gib - page}) CHECK(holds(sparse + at, page, 3));
        for (size_t at = page; at < gib / 2; at += gib / 64) CHECK(!resident(sparse + at));
    };
}

// An ordinary user's checkpoint reads it where it is mapped, and must not fill its holes.
test::Check sparse_shared_memory() {
    unsigned char* sparse = map(gib / 4, rw, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE);
    for (const size_t at : {size_t{0}, gib / 8, gib / 4 - page}) fill(sparse + at, page, 18);
    return [=](bool) {
        for (const size_t at : {size_t{0}, gib / 8, gib / 4 - page}) CHECK(holds(sparse + at, page, 18));
        for (size_t at = page; at < gib / 8; at += gib / 64) CHECK(!resident(sparse + at));
    };
}

// With a hole before it, and no descriptor.
test::Check mapped_beyond_its_end() {
    const int short_memory = memfd_create("short", MFD_CLOEXEC);
    CHECK(ftruncate(short_memory, 5 * page) == 0);
    unsigned char* beyond_end = map(16 * page, rw, MAP_SHARED, short_memory);
    CHECK(close(short_memory) == 0);
    fill(beyond_end + page, page, 19);
    return [=](bool) {
        CHECK(holds(beyond_end + page, page, 19) && readable(beyond_end + 4 * page) &&
              !readable(beyond_end + 5 * page));
    };
}

test::Check guard_page() {
    unsigned char* guard = map(3 * page, rw, MAP_PRIVATE | MAP_ANONYMOUS);
    CHECK(mprotect(guard + page, page, PROT_NONE) == 0);
    fill(guard, page, 4);
    fill(guard + 2 * page, page, 5);
    return [=](bool) {
        CHECK(holds(guard, page, 4) && holds(guard + 2 * page, page, 5) && !readable(guard + page));
    };
}

// One that no file of /proc names (MADV_GUARD_INSTALL, Linux 6.13): inside an area, with pages around it.
// `advice`: what else is said of that memory; 0: nothing.
test::Check guard_region_beside(int advice) {
    constexpr int guard_install = 102;
    unsigned char* hidden = anonymous(8 * page, 20);
    const bool guarded = madvise(hidden + 3 * page, 2 * page, guard_install) == 0;
    CHECK(advice == 0 || madvise(hidden, 8 * page, advice) == 0);
    return [=](bool) {
        CHECK(holds(hidden, 3 * page, 20) && readable(hidden + 3 * page) == !guarded &&
              readable(hidden + 4 * page) == !guarded);
        for (size_t i = 5 * page; i < 8 * page; ++i) CHECK(hidden[i] == value(i, 20));
    };
}
test::Check guard_region() {
    return guard_region_beside(0);
}
test::Check guard_region_not_forked() {
    return guard_region_beside(MADV_DONTFORK);
}
test::Check guard_region_wiped() {
    return guard_region_beside(MADV_WIPEONFORK);
}

// Two mappings that came to be alike one after the other, and which the kernel may have joined or not: it
// keeps apart what has had guard pages, as long as nothing else is done to it.
test::Check guard_region_in_the_second_of_two() {
    constexpr int guard_install = 102;
    unsigned char* first = map(6 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS) + page;
    unsigned char* second = first + 2 * page;
    CHECK(mprotect(first, 4 * page, rw) == 0 && madvise(second, 2 * page, MADV_WIPEONFORK) == 0);
    fill(first, 2 * page, 21);
    fill(second, page, 22);
    const bool guarded = madvise(second + page, page, guard_install) == 0;
    CHECK(madvise(first, 2 * page, MADV_WIPEONFORK) == 0);
    return [=](bool) {
        CHECK(holds(first, 2 * page, 21) && holds(second, page, 22) && readable(second + page) == !guarded);
    };
}

test::Check read_only_memory() {
    unsigned char* read_only = anonymous(page, 6);
    CHECK(mprotect(read_only, page, PROT_READ) == 0);
    return [=](bool) {
        CHECK(holds(read_only, page, 6));
        CHECK(mprotect(read_only, page, rw) == 0);
        fill(read_only, page, 6);
        CHECK(mprotect(read_only, page, PROT_READ) == 0);
    };
}

// Shared memory that is for reading only just now; and some that can't be written to at all, because who has
// mapped it had it open for reading.
test::Check shared_memory_for_reading() {
    const auto memfd = [](const char* name) {
        const int fd = memfd_create(name, MFD_CLOEXEC);
        CHECK(fd >= 0 && ftruncate(fd, page) == 0);
        return fd;
    };
    const int closed = memfd("closed"), open_still = memfd("open"), both = memfd("both");
    const int for_reading = open(("/proc/self/fd/" + std::to_string(both)).c_str(), O_RDONLY | O_CLOEXEC);
    CHECK(for_reading >= 0 && write(both, "for reading", 11) == 11 && close(both) == 0);
    unsigned char* const later[] = {anonymous(page, 31, MAP_SHARED), map(page, rw, MAP_SHARED, closed),
                                    map(page, rw, MAP_SHARED, open_still)};
    unsigned char* const never = map(page, PROT_READ, MAP_SHARED, for_reading);
    CHECK(close(closed) == 0);
    for (auto* each : later) {
        fill(each, page, 31);
        CHECK(mprotect(each, page, PROT_READ) == 0);
    }
    return [=](bool) {
        for (auto* each : later) {
            CHECK(holds(each, page, 31));
            CHECK(mprotect(each, page, rw) == 0);
            fill(each, page, 31);
            CHECK(mprotect(each, page, PROT_READ) == 0);
        }
        CHECK(std::memcmp(never, "for reading", 11) == 0);
        CHECK(mprotect(never, page, rw) != 0 && errno == EACCES);
        CHECK((fcntl(for_reading, F_GETFL) & O_ACCMODE) == O_RDONLY);
    };
}

test::Check file_mapped_private() {
    const int fd = file("mapped-private", 16 * page, 7);
    unsigned char* mapped = map(16 * page, rw, MAP_PRIVATE, fd);
    fill(mapped + 3 * page, page, 8);
    close(fd);
    return [=](bool) {
        CHECK(holds(mapped + 3 * page, page, 8) && file_holds("mapped-private", 0, 16 * page, 7));
        unsigned char* rest = map(16 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS);
        CHECK(holds(mapped, page, 7));
        munmap(rest, 16 * page);
    };
}

// A write through the mapping reaches the file, and one to the file the mapping.
test::Check file_mapped_shared() {
    const int mapped_fd = file("mapped-shared", 16 * page, 9);
    unsigned char* mapped = map(14 * page, rw, MAP_SHARED, mapped_fd, 2 * page);
    close(mapped_fd);
    return [=](bool) {
        mapped[0] = 200;
        const int fd = open("mapped-shared", O_RDWR);
        unsigned char byte = 0;
        CHECK(pread(fd, &byte, 1, 2 * page) == 1 && byte == 200);
        byte = value(2 * page, 9);
        CHECK(pwrite(fd, &byte, 1, 2 * page) == 1 && mapped[0] == byte);
        close(fd);
        CHECK(file_holds("mapped-shared", 0, 16 * page, 9));
    };
}

test::Check deleted_file() {
    const int fd = file("mapped-deleted", 4 * page, 10);
    unsigned char* shared = map(4 * page, rw, MAP_SHARED, fd);
    unsigned char* own = map(4 * page, rw, MAP_PRIVATE, fd);
    fill(own, page, 11);
    CHECK(unlink("mapped-deleted") == 0);
    close(fd);
    return [=](bool) {
        CHECK(holds(shared, 4 * page, 10) && holds(own, page, 11) && access("mapped-deleted", F_OK) != 0);
        shared[3 * page] = 99;
        CHECK(own[3 * page] == 99);  // still one file
        shared[3 * page] = value(3 * page, 10);
    };
}

test::Check sealed_memfd() {
    const int memory = memfd_create("of-the-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memory >= 0 && ftruncate(memory, 8 * page) == 0);
    unsigned char* a = map(8 * page, rw, MAP_SHARED, memory);
    unsigned char* b = map(8 * page, rw, MAP_SHARED, memory);  // the same pages twice
    fill(a, 8 * page, 12);
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
    return [=](bool) {
        CHECK(holds(a, 8 * page, 12));
        a[5] = 77;
        CHECK(b[5] == 77);
        unsigned char through = 0;
        CHECK(pread(memory, &through, 1, 5) == 1 && through == 77);
        b[5] = value(5, 12);
        CHECK(fcntl(memory, F_GET_SEALS) == (F_SEAL_GROW | F_SEAL_SHRINK) &&
              fcntl(memory, F_GETFD) == FD_CLOEXEC);
        CHECK(ftruncate(memory, page) != 0 && errno == EPERM);
        char link[64], target[64] = "";
        std::snprintf(link, sizeof link, "/proc/self/fd/%d", memory);
        CHECK(readlink(link, target, sizeof target - 1) > 0 &&
              std::strstr(target, "memfd:of-the-test") != nullptr);
    };
}

// The kernel can't merge them.
test::Check many_areas() {
    constexpr size_t many = 2000;
    unsigned char* areas = map(many * page, rw, MAP_PRIVATE | MAP_ANONYMOUS);
    for (size_t i = 0; i < many; ++i) {
        areas[i * page] = value(i, 13);
        if (i % 2 == 1) CHECK(mprotect(areas + i * page, page, PROT_READ) == 0);
    }
    return [=](bool) {
        for (size_t i = 0; i < many; ++i) CHECK(areas[i * page] == value(i, 13));
    };
}

test::Check brk_heap() {
    auto* heap = static_cast<unsigned char*>(sbrk(64 * page));
    CHECK(heap != reinterpret_cast<unsigned char*>(-1));
    fill(heap, 64 * page, 14);
    return [=](bool) {
        CHECK(holds(heap, 64 * page, 14));
        auto* more = static_cast<unsigned char*>(sbrk(16 * page));
        CHECK(more != reinterpret_cast<unsigned char*>(-1) && zero(more, 16 * page));
        fill(more, 16 * page, 18);
        CHECK(sbrk(-16 * static_cast<intptr_t>(page)) != reinterpret_cast<void*>(-1));
    };
}

test::Check advice_for_forks() {
    unsigned char *fork_off = anonymous(page, 15), *wiped = anonymous(page, 16), *both = anonymous(page, 18);
    CHECK(madvise(fork_off, page, MADV_DONTFORK) == 0);
    CHECK(madvise(wiped, page, MADV_WIPEONFORK) == 0);
    CHECK(madvise(both, page, MADV_WIPEONFORK) == 0 && madvise(both, page, MADV_DONTFORK) == 0);
    return [=](bool) {
        CHECK(holds(fork_off, page, 15) && holds(wiped, page, 16) && holds(both, page, 18));
        // The advice is still in force: a child sees neither.
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(zero(wiped, page) && !readable(fork_off) ? 0 : 1);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    };
}

// VmFlags of the mapping at an address, but for what the kernel counts and remembers by itself (accounted,
// soft-dirty).
std::string marks_of(const unsigned char* address) {
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long start = 0, end = 0;
        const auto at = reinterpret_cast<unsigned long>(address);
        if (std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2) here = start <= at && at < end;
        if (!here || !line.starts_with("VmFlags:")) continue;
        std::istringstream words(line);
        std::string marks, word;
        while (words >> word)
            if (word != "ac" && word != "sd") marks += word + " ";
        return marks;
    }
    return "";
}

// Nothing else that memory is marked with is forgotten where MADV_DONTFORK hides it from a child.
test::Check advice_beside_dontfork() {
    std::vector<std::pair<const unsigned char*, std::string>> marked;
    for (const int kind : {MAP_PRIVATE, MAP_SHARED})
        for (const int advice : {MADV_DONTDUMP, MADV_NOHUGEPAGE, MADV_WIPEONFORK, MADV_DONTFORK}) {
            if (kind == MAP_SHARED && advice == MADV_WIPEONFORK) continue;
            unsigned char* between = map(3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS) + page;
            CHECK(mmap(between, page, rw, kind | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == between);
            fill(between, page, 20);
            CHECK(madvise(between, page, advice) == 0 && madvise(between, page, MADV_DONTFORK) == 0);
            marked.emplace_back(between, marks_of(between));
            CHECK(marked.back().second.find(" dc ") != std::string::npos);
        }
    return [=](bool) {
        for (const auto& [address, marks] : marked) {
            if (marks_of(address) != marks) test::say((marks + "-> " + marks_of(address) + "\n").c_str());
            CHECK(marks_of(address) == marks && holds(address, page, 20));
        }
    };
}

// As databases have their file (LMDB, bbolt): opened for writing, mapped for reading.
test::Check file_mapped_for_reading() {
    const int fd = open("mapped for reading", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4 * page) == 0);
    const auto map_file = [&] {
        void* there = mmap(nullptr, 4 * page, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(there != MAP_FAILED);
        return static_cast<unsigned char*>(there);
    };
    unsigned char *random = map_file(), *sequential = map_file();
    CHECK(madvise(random, 4 * page, MADV_RANDOM) == 0 && madvise(sequential, 4 * page, MADV_SEQUENTIAL) == 0);
    close(fd);
    const std::string as_random = marks_of(random), as_sequential = marks_of(sequential);
    return [=](bool) {
        CHECK(marks_of(random) == as_random && marks_of(sequential) == as_sequential);
        CHECK(mprotect(random, 4 * page, rw) == 0);
        random[0] = 7;
        CHECK(sequential[0] == 7 && mprotect(random, 4 * page, PROT_READ) == 0);
    };
}

test::Check locked_memory() {
    unsigned char* locked = map(4 * page, rw, MAP_PRIVATE | MAP_ANONYMOUS);
    CHECK(mlock(locked, 4 * page) == 0);
    fill(locked, 4 * page, 17);
    return [=](bool) { CHECK(holds(locked, 4 * page, 17)); };
}

test::Check new_memory() {
    return [round = 0](bool) mutable {
        ++round;
        void* grown = mremap(anonymous(4 * page, 19), 4 * page, 64 * page, MREMAP_MAYMOVE);
        CHECK(grown != MAP_FAILED && holds(static_cast<unsigned char*>(grown), 4 * page, 19) &&
              zero(static_cast<unsigned char*>(grown) + 4 * page, 60 * page));
        munmap(grown, 64 * page);
        char* pointer = static_cast<char*>(std::malloc(1 << 20));
        CHECK(pointer != nullptr);
        std::memset(pointer, round, 1 << 20);
        auto* larger = static_cast<char*>(std::realloc(pointer, 8 << 20));
        CHECK(larger != nullptr && larger[(1 << 20) - 1] == round);
        std::free(larger);
    };
}

// Kernels without CONFIG_ANON_VMA_NAME have none: EINVAL.
test::Check named_memory() {
    constexpr int set_vma = 0x53564d41, set_anon_name = 0;
    unsigned char* const memory = anonymous(4 * page, 23);
    auto* const shared = static_cast<unsigned char*>(
        mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(shared != MAP_FAILED);
    std::memset(shared, 29, 4 * page);
    const bool named = prctl(set_vma, set_anon_name, memory + page, 2 * page, "two of four") == 0 &&
                       prctl(set_vma, set_anon_name, shared, 4 * page, "shared") == 0;
    return [=](bool) {
        CHECK(holds(memory, 4 * page, 23));
        for (std::size_t i = 0; i < 4 * page; ++i) CHECK(shared[i] == 29);
        std::ifstream maps("/proc/self/maps");
        std::string line, all;
        while (std::getline(maps, line)) all += line + "\n";
        char begin[64];
        std::snprintf(begin, sizeof begin, "\n%lx-%lx ", reinterpret_cast<unsigned long>(memory + page),
                      reinterpret_cast<unsigned long>(memory + 3 * page));
        const auto at = all.find(begin);
        CHECK(!named ||
              (at != std::string::npos && all.compare(all.find('[', at), 18, "[anon:two of four]") == 0));
    };
}
}  // namespace

int main() {
    test::serve({{"private memory", private_memory},
                 {"shared memory", shared_memory},
                 {"sparse memory", sparse_memory},
                 {"sparse shared memory", sparse_shared_memory},
                 {"a memfd mapped beyond its end", mapped_beyond_its_end},
                 {"a guard page", guard_page},
                 {"a guard region", guard_region},
                 {"a guard region in MADV_DONTFORK", guard_region_not_forked},
                 {"a guard region in MADV_WIPEONFORK", guard_region_wiped},
                 {"a guard region in the second of two alike", guard_region_in_the_second_of_two},
                 {"read-only memory", read_only_memory},
                 {"shared memory for reading", shared_memory_for_reading},
                 {"a file mapped privately", file_mapped_private},
                 {"a file mapped shared", file_mapped_shared},
                 {"a deleted file", deleted_file},
                 {"a sealed memfd", sealed_memfd},
                 {"2000 areas", many_areas},
                 {"brk", brk_heap},
                 {"MADV_DONTFORK and MADV_WIPEONFORK", advice_for_forks},
                 {"other advice beside MADV_DONTFORK", advice_beside_dontfork},
                 {"a file mapped for reading", file_mapped_for_reading},
                 {"locked memory", locked_memory},
                 {"memory with a name", named_memory},
                 {"memory that is new after a restart", new_memory}});
}
