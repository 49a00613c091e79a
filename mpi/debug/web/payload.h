// What a message brought, as a line for people.
#pragma once

#include <string>

#include "mpi/debug/history.h"

namespace cairn::mpi::debug::web {

// "3 MPI_INT: 1 2 3", "80 bytes of a type of the program's: 01 00 ...".
[[nodiscard]] std::string text_of(const History::Given& given);

}  // namespace cairn::mpi::debug::web
