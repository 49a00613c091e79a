// gdb in a copy of a rank, or in a rank of a whole job: for one question, for a watchpoint, or for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/error.h"
#include "mpi/debug/process.h"

namespace cairn::mpi::debug {

// What `print EXPRESSION` says in the innermost function of the program. Code refused: what gdb says against
// it.
[[nodiscard]] Result<std::string> print_in(pid_t process, const std::string& expression);

// Assigns in the innermost function of the program of a copy that goes on from there: "part[1] = 1".
struct Assigned {
    std::string what;  // the left side
    std::string before, after;
};
[[nodiscard]] Result<Assigned> assign_in(const RankProcess& copy, const std::string& assignment);

// Where the value of an expression is, and how to watch it.
struct Watched {
    std::string expression;  // good at any place: by its address
    std::string value;
};
[[nodiscard]] Result<Watched> watched_in(const RankProcess& copy, const std::string& expression);

struct Change {
    std::uint64_t position = 0;  // behind so many events of the trace
    std::string where;           // "solver.c:88 (relax)"
    std::string before, after;
};
// Lets the copy run, which `run` tells it, until it stands again, and says which change came last.
[[nodiscard]] Result<std::optional<Change>> last_change(RankProcess& copy, const Watched& watched,
                                                        const Command& run);

// At the terminal, until it is left.
[[nodiscard]] Result<> open_gdb(pid_t process);

}  // namespace cairn::mpi::debug
