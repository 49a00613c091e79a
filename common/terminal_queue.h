// What has been typed into, or printed to, a pseudo-terminal and read by nobody yet: taken out, and put in.
//
// The kernel gives no way to look at it without taking it out. Whoever uses these makes sure that nobody else
// reads, writes or sets the terminal meanwhile. Both ends are descriptors of the caller's: reads of a master
// that is in packet mode (TIOCPKT) would disturb its state, so that must be off.
#pragma once

#include "common/error.h"
#include "common/schema/process.h"

namespace cairn {

// Bytes on their way from the master to whoever reads the slave, a line that isn't ended yet included. In
// canonical mode an end of file that was typed and not read is lost (it has no byte of its own). `slave` must
// be non-blocking.
[[nodiscard]] Result<schema::Bytes> take_typed(int slave);

// Puts them in as they are: no character is special, nothing is echoed, a line that isn't ended stays so. The
// master's queue must be empty (take_printed). Returns when they have arrived, at most 1 s later: an error
// otherwise.
[[nodiscard]] Result<> put_typed(int master, int slave, const schema::Bytes& bytes);

// Bytes on their way from the slave to whoever reads the master. Doesn't block, whatever the master's flags.
[[nodiscard]] Result<schema::Bytes> take_printed(int master);

// Returns when they have arrived, at most 1 s later: an error otherwise.
[[nodiscard]] Result<> put_printed(int master, int slave, const schema::Bytes& bytes);

}  // namespace cairn
