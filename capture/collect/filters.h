// Seccomp filters that a thread has beyond the coordinator's: read from the kernel, and judged, before
// anything is asked of the process. Where they forbid what we call they are suspended, until we let go of the
// thread (docs/decisions/0011-seccomp.md).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "capture/group.h"
#include "common/schema/process.h"

namespace cairn::capture {

// Fills Process::filters, io_uring_off, Thread::filters and seccomp_strict. `status`: the thread's
// (/proc/PID/status). Refuses, by name: a filter that can't be read, one that couldn't be installed again,
// one that forbids a system call that the agent makes and can't be suspended.
[[nodiscard]] Result<> collect_filters(const StoppedProcess& process, StoppedThread& stopped,
                                       const proc::Status& status, schema::Process& image,
                                       schema::Thread& thread);

// The calls by which the library is placed (capture/place_library.h) may be made by the thread, whose filters
// are suspended if they forbid one; an error says which.
[[nodiscard]] Result<> let_filters_place(pid_t tid);
// Whether they would let it receive the descriptors for that, where it can't open the files.
[[nodiscard]] bool filters_let_hand_in(pid_t tid);

// Whether the thread's filters may forbid restart_syscall(2), which the kernel makes of some calls that a
// stop has interrupted.
[[nodiscard]] bool may_not_restart(pid_t tid);

// The system call number by which a tracer lets a thread make no call at all: -1, which the kernel takes for
// none, but a filter may take for a reason to kill; with filters that of getpid(2), where they allow it. A
// thread that may make neither must not be brought to a call.
[[nodiscard]] std::optional<long> number_for_none(pid_t tid);

}  // namespace cairn::capture
