// Relative timeouts of calls that are made again: what is left of them, not all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/ptrace/thread.h"

namespace cairn {

// A timespec that the thread's memory must hold before it goes on.
struct TimespecAt {
    ProgramAddress address;
    std::int64_t seconds = 0, nanoseconds = 0;
};

// False: the thread is in a call that, as it was made, waits until something happens. For many idle threads
// that is so, and nobody has to look how long they have waited.
[[nodiscard]] bool may_time_out(const ptrace::Registers& registers);

// Changes the registers of a thread that sleeps in a call with a relative timeout so that, made again, it
// sleeps for `left_ns` only. Calls that take the timeout in memory get one of their own below the thread's
// red zone, where the kernel reads it before anything else can use the place; the caller writes it. ppoll and
// pselect6 need nothing: the kernel has written what is left over the timeout (poll_select_finish,
// fs/select.c).
[[nodiscard]] std::optional<TimespecAt> shorten_timeout(ptrace::Registers& registers, std::int64_t left_ns);

}  // namespace cairn
