// System V calls as a program makes them by libc's function syscall.
#pragma once

namespace cairn::hijack {

// With the program's ids, and the notes that libc's functions of these names make (wrappers/sysv.cpp).
// Answers as libc does: -1 and errno.
long system_v_call(long number, long a, long b, long c, long d, long e);

}  // namespace cairn::hijack
