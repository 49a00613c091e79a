// Whether a program that was executed can find what it needs to join its session.
#pragma once

#include <sys/types.h>

#include <string>

namespace cairn::capture {

// Has it been asked to load libcairn.so? The exec of a member that couldn't leaves it out of LD_PRELOAD
// (hijack/exec.h). `environment`: as of /proc/PID/environ.
[[nodiscard]] bool preloads_library(const std::string& environment);

// Has its loader loaded libc, and not libcairn.so? What LD_PRELOAD names is loaded before what the program
// needs (dl_main, elf/rtld.c of glibc), so it never will be: it can't be read with the rights that the
// program has. Not with LD_AUDIT, which comes first, and with a libc of its own.
[[nodiscard]] bool has_done_without(pid_t living, const std::string& environment);

// `living`: a thread of it that lives. No: libcairn.so can't be loaded, because in the process's root folder
// or mount namespace it isn't where LD_PRELOAD says; or the session's region isn't there either, and the gate
// (coordinator/gate.h), an abstract socket, is in another network namespace. What can't be told is yes.
[[nodiscard]] bool can_join(pid_t living, const std::string& environment);

}  // namespace cairn::capture
