// Whether a process is what a straight run to the same state makes of it: what a debugger that goes back by
// running again stands on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::mpi::debug {

struct Compared {
    std::uint64_t bytes = 0;
    std::vector<std::string> differences;  // "[heap] 0x55555555a2c0: 1, straight 2"; no more than 16
};

// Two copies of one process: the program's own data, the heap and other memory of its own, the stack from
// `frame` on. Not the data of libraries, where the process's id and times may be.
[[nodiscard]] Result<Compared> compare(pid_t one, pid_t other, std::uint64_t frame);

}  // namespace cairn::mpi::debug
