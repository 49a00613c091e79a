// gdb by a script in Python, in a copy of a rank, or in a rank itself.
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

// A script with the descriptor of its socket in the place of each %SOCKET%.
[[nodiscard]] std::string with_socket(std::string script, int socket);

// What gdb may do in the process: a copy of a rank is its own; a rank that goes on afterwards isn't.
enum class GdbMay { do_anything, look };

// In a new process: attaches to that one, runs the script and ends.
[[noreturn]] void become_gdb(pid_t pid, int script, GdbMay may = GdbMay::do_anything);

}  // namespace cairn::mpi::debug
