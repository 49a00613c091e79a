// Whether a program that was executed can find what it needs to join its session.
#pragma once

#include <sys/types.h>

#include <string>

namespace cairn::capture {

// `living`: a thread of it that lives. `environment`: as of /proc/PID/environ. No: libcairn.so can't be
// loaded, because in the process's root folder or mount namespace it isn't where LD_PRELOAD says; or the
// session's region isn't there either, and the gate (coordinator/gate.h), an abstract socket, is in another
// network namespace. What can't be told is yes.
[[nodiscard]] bool can_join(pid_t living, const std::string& environment);

}  // namespace cairn::capture
