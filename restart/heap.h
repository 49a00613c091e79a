// The tool's own memory, of which every process of the forest has a copy until it executes its program.
#pragma once

namespace cairn::restart {

// Makes the heap's pages huge, as far as the kernel can (MADV_COLLAPSE, Linux 6.1): a fork copies one entry
// of the page table then where it would copy 512, and the exec behind it takes one away. What a checkpoint of
// hundreds of processes says is tens of MiB, and these copies were a third of such a restart.
void join_heap_pages();

}  // namespace cairn::restart
