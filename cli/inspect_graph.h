// A checkpoint's processes and what connects them, as a graph in Graphviz's language (dot(1)).
#pragma once

#include <string>

#include "cli/inspect_load.h"

namespace cairn::inspect {

// Who was born of whom, and pipes, sockets, terminals and shared memory that two processes or more have in
// common. What is connected to the outside has a node for that.
[[nodiscard]] std::string as_dot(const Checkpoint& checkpoint);

}  // namespace cairn::inspect
