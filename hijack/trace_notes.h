// What a tracer says to the kernel of its tracees and no call tells afterwards: whether a thread was seized
// or attached, by which options, and how it was let run. The kernel is asked for the rest when a checkpoint
// comes.
#pragma once

#include <signal.h>

#include <cstdint>

namespace cairn::hijack {

// Before the call is made: a tracer that is stopped between the two has its tracee still in a stop, where how
// it was last let run doesn't matter.
void note_tracing(long request, std::int32_t tid, std::uint64_t data);

// The thread has ended, and the tracer has been told, or it is traced no more.
void forget_tracing(std::int32_t tid);

// What wait(2) has told of a child or of a thread that is traced, by the ids that the program knows. `status`
// and `info` may be null, as programs may give them.
std::int32_t told(std::int32_t kernel_id, const int* status);
void told(siginfo_t* info, int options);

}  // namespace cairn::hijack
