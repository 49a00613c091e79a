#include "restart/heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "common/proc.h"

namespace cairn::restart {
namespace {

constexpr std::uint64_t huge_page = 2 << 20;
constexpr int collapse = 25;  // MADV_COLLAPSE; the headers of Linux 6.1 know it first

bool is_own_memory(const proc::MapLine& line) {
    return line.name == "[heap]" || (line.name.empty() && line.inode == 0);
}

}  // namespace

void join_heap_pages() {
    const auto lines = proc::maps(::getpid(), false);
    if (!lines) return;
    for (const auto& line : *lines) {
        const auto begin = (line.start.value() + huge_page - 1) / huge_page * huge_page;
        const auto end = line.end.value() / huge_page * huge_page;
        if (!is_own_memory(line) || (line.prot & PROT_WRITE) == 0 || begin >= end) continue;
        (void)::madvise(reinterpret_cast<void*>(begin), end - begin, collapse);
    }
}

}  // namespace cairn::restart
