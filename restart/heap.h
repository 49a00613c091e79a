// The tool's own memory, of which every process of the forest has a copy until it executes its program.
#pragma once

#include <cstdint>

namespace cairn::restart {

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
