// The area that a thread has registered for restartable sequences (rseq(2)).
#pragma once

#include "capture/group.h"
#include "common/ptrace/thread.h"

namespace cairn::capture {

// Of a stopped thread; its address isn't known() where there is none. The kernel is asked, and where it
// doesn't tell (Linux before 5.13) the hijack library knows what libc registers; what a program has
// registered without libc is missed there.
[[nodiscard]] Result<ptrace::Rseq> rseq_of(const StoppedProcess& process, const StoppedThread& thread);

}  // namespace cairn::capture
