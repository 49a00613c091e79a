// The tool's own memory, of which every process of the forest has a copy until it executes its program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::restart {

// Whether huge pages are worth it for a forest of so many processes: each page has to be found and cleared
// first. By turns with small ones a restart of 100 took 189 ms instead of 170, of 200 the same, of 512 600
// instead of 809.
constexpr bool huge_pages_pay(std::size_t processes) {
    return processes >= 160;
}
// Before threads allocate much: the heap of each has room for so many bytes at once, and grows by as much;
// and what is large is put there as well.
void expect_much(std::uint64_t bytes);
// Behind that: heaps grow by a little again.
void expect_little();
// For a thread that has allocated nothing yet: its heap, as far as there is room for what it expects, comes
// in huge pages. Made huge later, each byte would be copied, and pages that the machine has to find first
// would be found twice.
void take_huge_pages();

// Makes the heap's pages huge, as far as the kernel can (MADV_COLLAPSE, Linux 6.1): a fork copies one entry
// of the page table then where it would copy 512, and the exec behind it takes one away. What a checkpoint of
// hundreds of processes says is tens of MiB, and these copies were a third of such a restart.
void join_heap_pages();

}  // namespace cairn::restart
