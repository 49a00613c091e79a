// Programs of Go's: their runtime makes its system calls by instructions of its own, also where they are
// dynamic and have libcairn.so loaded.
#pragma once

#include <sys/types.h>

namespace cairn::capture {

// By the note that Go's linker puts into every program.
[[nodiscard]] bool is_go_program(pid_t pid);

}  // namespace cairn::capture
