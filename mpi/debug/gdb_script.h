// gdb by a script in Python, in a copy of a rank.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::mpi::debug {

// A file with this script behind what all have in common: `program_frame()`, the innermost frame of the
// program, `place(frame)`, its name and line, and `say(what, ...)`, which prints "@what" and the words with
// tabs between them. Not closed by exec.
[[nodiscard]] Result<Fd> gdb_script(const std::string& script);

// In a new process: attaches to that one, runs the script and ends.
[[noreturn]] void become_gdb(pid_t pid, int script);

}  // namespace cairn::mpi::debug
