// Where the processes of a job stand at a breakpoint or on the way there: each says so in DIR/stopped/state.N
// while it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::mpi {

// What stands in DIR/stopped/next.N for a job that is to go on freely from there.
inline constexpr const char* leave_word = "leave";

struct Standing {
    std::uint64_t pid = 0, event = 0, position = 0, inside = 0, stop = 0;
    bool there = false;  // the process lives
    std::vector<std::string> stack;
};

// What a process under a debugger of the whole job says of itself all the time, in DIR/stopped/at.N, which it
// has mapped. While it stands it holds a lock on that file (F_SETLK of fcntl(2)), so that the kernel can tell
// which process it is: after a restart with virtual ids it doesn't know itself.
struct Whereabouts {
    std::uint64_t position = 0;  // events of its trace
    // It can't be left: it has several threads, goes by a recorded clock, or has persistent receives from any
    // source or with any tag.
    std::uint32_t bound = 0;
    char inside[52] = {};  // the function of the MPI's that is no event, while it is in one; or ""
};
[[nodiscard]] std::string whereabouts_path(const std::string& folder, int rank);

[[nodiscard]] Standing standing(const std::string& folder, int rank);
// As `cairn mpi where` prints it.
[[nodiscard]] std::string where_all_stand(const std::string& folder, int ranks);

}  // namespace cairn::mpi
