// Seccomp filters that a thread has beyond the coordinator's: read from the kernel, and judged, before
// anything is asked of the process.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "capture/group.h"
#include "common/schema/process.h"

namespace cairn::capture {

// Fills Process::filters, io_uring_off and Thread::filters. `status`: the thread's (/proc/PID/status).
// Refuses, by name: a filter that can't be read, one that couldn't be installed again, one that forbids a
// system call that the agent makes.
[[nodiscard]] Result<> collect_filters(const StoppedProcess& process,
                                       std::map<std::string, std::string>& status, schema::Process& image,
                                       schema::Thread& thread);

// Whether a thread's filters allow the calls by which the library is placed (capture/place_library.h); an
// error says which one not.
[[nodiscard]] Result<> filters_allow_placing(pid_t tid);

// Whether the thread's filters may forbid restart_syscall(2), which the kernel makes of some calls that a
// stop has interrupted.
[[nodiscard]] bool may_not_restart(pid_t tid);

// The system call number by which a tracer lets a thread make no call at all: -1, which the kernel takes for
// none, but a filter may take for a reason to kill; with filters that of getpid(2), where they allow it. A
// thread that may make neither must not be brought to a call.
[[nodiscard]] std::optional<long> number_for_none(pid_t tid);

}  // namespace cairn::capture
