// `cairn mpi debug --gdb`: gdb is what one sits at. It has the rank in focus, where it stands, and the
// commands of the debugger are its own.
#pragma once

#include "mpi/debug/commands.h"

namespace cairn::mpi::debug::gdb_front {

// Until gdb ends. Ranks that run alone are shown as copies, in which gdb may do what it likes; of a whole job
// it has the rank itself, until anybody moves. `from` as Commands::begin has it. Code refused: gdb can't be
// started.
[[nodiscard]] Result<> converse(World& world, Commands& commands, const std::string& from);

}  // namespace cairn::mpi::debug::gdb_front
