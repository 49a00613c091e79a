// A copy of a rank that is saved by cairn's own checkpoint, and comes back under another debugger
// (mpi/debug/images.h).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace cairn::mpi {

// As the copies that stand as checkpoints, and a member of cairn's session, if the process was launched in
// one; 0 in the copy.
[[nodiscard]] pid_t fork_member();

// Lets go of the debugger and of its pipes, and sleeps until a debugger waits at the socket of this name,
// which is after a restart. Returns that one's pid; it is the parent then, its socket has the number
// `socket`, and the outputs are its pipes. If the debugger `parent` ends before, so does this process.
[[nodiscard]] pid_t sleep_in_image(int socket, pid_t parent, const std::uint64_t (&name)[2]);

// As the kernel calls it: getppid() is another number behind a restart with virtual ids.
[[nodiscard]] pid_t own_parent();

}  // namespace cairn::mpi
