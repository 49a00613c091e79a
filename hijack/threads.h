// The thread id in libc's thread block (TCB). libc compares it with the owner written in a mutex, so it stays
// the virtual one for all of a thread's life; what libc itself tells the kernel of other threads by it must
// go past libc.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "common/ids.h"

namespace cairn::hijack {

// Where a thread's block has its tid, null if this libc doesn't say (it exports the offset for debuggers).
std::int32_t* tid_in_block(pthread_t thread);

// Writes the calling thread's.
void write_own_tid(ProgramId tid);

// The kernel's id of a thread, if that differs from what its block says; else not known(). libc goes by the
// block even where a thread asks about itself, but for a few calls: those want it for others only.
KernelId differing_kernel_tid(pthread_t thread);
KernelId differing_kernel_tid_of_other(pthread_t thread);

// How many bytes a block has, 0 if this libc doesn't say.
std::size_t size_of_block();

}  // namespace cairn::hijack
