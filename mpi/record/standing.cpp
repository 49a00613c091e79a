#include "mpi/record/standing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace cairn::mpi {

std::string whereabouts_path(const std::string& folder, int rank) {
    return fmt::format("{}/stopped/at.{}", folder, rank);
}

Standing standing(const std::string& folder, int rank) {
    Standing state;
    std::ifstream file(fmt::format("{}/stopped/state.{}", folder, rank));
    for (std::string line; std::getline(file, line);) {
        const std::size_t space = line.find(' ');
        const std::string key = line.substr(0, space), value = line.substr(space + 1);
        const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
        if (key == "frame") state.stack.push_back(value);
        if (key == "pid") state.pid = number;
        if (key == "event") state.event = number;
        if (key == "position") state.position = number;
        if (key == "inside") state.inside = number;
        if (key == "stop") state.stop = number;
    }
    state.there = state.pid != 0 && ::access(fmt::format("/proc/{}", state.pid).c_str(), F_OK) == 0;
    return state;
}

std::string where_all_stand(const std::string& folder, int ranks) {
    std::string text;
    for (int rank = 0; rank < ranks; ++rank) {
        const Standing state = standing(folder, rank);
        if (!state.there) {
            text += fmt::format("rank {}: not stopped\n", rank);
            continue;
        }
        text += fmt::format("rank {}: event {}{}, gdb -p {}\n", rank, state.event,
                            state.inside != 0 ? " (in the call)" : "", state.pid);
        for (const std::string& frame : state.stack) text += fmt::format("  {}\n", frame);
    }
    return text;
}

}  // namespace cairn::mpi
