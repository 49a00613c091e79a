// Where the processes of a job stand at a breakpoint: each says so in DIR/stopped/state.N while it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::mpi {

struct Standing {
    std::uint64_t pid = 0, event = 0, position = 0, inside = 0, stop = 0;
    bool there = false;  // the process lives
    std::vector<std::string> stack;
};

[[nodiscard]] Standing standing(const std::string& folder, int rank);
// As `cairn mpi where` prints it.
[[nodiscard]] std::string where_all_stand(const std::string& folder, int ranks);

}  // namespace cairn::mpi
