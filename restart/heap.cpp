#include "restart/heap.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "common/proc.h"

namespace cairn::restart {
namespace {

constexpr std::uint64_t huge_page = 2 << 20;
constexpr int largest_in_heap = 32 << 20;  // mallopt(3) takes no more
constexpr int collapse = 25;               // MADV_COLLAPSE; the headers of Linux 6.1 know it first

bool is_own_memory(const proc::MapLine& line) {
    return line.name == "[heap]" || (line.name.empty() && line.inode == 0);
}

std::uint64_t up(std::uint64_t address) {
    return (address + huge_page - 1) / huge_page * huge_page;
}

std::uint64_t down(std::uint64_t address) {
    return address / huge_page * huge_page;
}

}  // namespace

void expect_much(std::uint64_t bytes) {
    constexpr std::uint64_t most = std::numeric_limits<int>::max() / huge_page * huge_page;
    (void)::mallopt(M_TOP_PAD, static_cast<int>(std::min(up(bytes), most)));
    (void)::mallopt(M_MMAP_THRESHOLD, largest_in_heap);
}

void expect_little() {
    constexpr int usual = 128 << 10;  // mallopt(3)
    (void)::mallopt(M_TOP_PAD, usual);
}

void take_huge_pages() {
    const std::vector<char> any(1);
    const ProgramAddress here(reinterpret_cast<std::uint64_t>(any.data()));
    const auto lines = proc::maps(::getpid(), false);
    if (!lines) return;
    for (const auto& line : *lines) {
        const auto begin = down(line.start.value()), end = down(line.end.value());
        // glibc makes a thread's heap at a multiple of 64 MiB.
        const bool whole = begin == line.start.value() && begin < end;
        if (here < line.start || line.end <= here || !is_own_memory(line) || !whole) continue;
        (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
        // The heap's own head is there already, in a small page.
        (void)::madvise(reinterpret_cast<void*>(begin), huge_page, collapse);
    }
}

void join_heap_pages() {
    const auto lines = proc::maps(::getpid(), false);
    if (!lines) return;
    for (const auto& line : *lines) {
        const auto begin = up(line.start.value()), end = down(line.end.value());
        if (!is_own_memory(line) || (line.prot & PROT_WRITE) == 0 || begin >= end) continue;
        (void)::madvise(reinterpret_cast<void*>(begin), end - begin, collapse);
    }
}

}  // namespace cairn::restart
