// Which call `--at` of a breakpoint means.
#pragma once

#include <set>
#include <string>

#include "causality/computation.h"

namespace cairn::mpi::tool {

struct Spot {
    std::uint64_t event = 0;         // by its number, from 1; else by place:
    std::set<std::uint32_t> places;  // of the computation
    std::uint64_t count = 1;
    bool counted = false;
    std::string name;  // without the count
};

// EVENT, FILE:LINE[:COUNT] or FUNCTION[:COUNT], with names as `where` and `cairn causality places` print
// them: those of C++ have colons themselves. A function is also known by its name without what it is in and
// without template arguments, if there is only one of that name, and a file by the end of its path. Code
// refused: there is no such place in what this process does, and what is like it; or there are several.
[[nodiscard]] Result<Spot> read_spot(const std::string& at, const causality::Computation& computation,
                                     causality::Process rank);

// For tests: the name without template arguments, parameters and what it is in.
[[nodiscard]] std::string short_name(const std::string& function);

}  // namespace cairn::mpi::tool
