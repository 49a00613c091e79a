// Who forks whom.
//
// A process is born into the session of who forks it and can leave it only by leading one of its own; it
// changes its parent only by being orphaned, and then moves up to one of its ancestors (a subreaper) or out
// to init. So for each process a forker must be found that is in the right session at the time and below the
// later parent. Where that is the parent itself the fork is direct; elsewhere a middle process is put
// between, whose exit makes the orphan.
#pragma once

#include <vector>

#include "restart/forest/metadata.h"

namespace cairn::restart::forest {

// Indices of processes in a plan: [0] the tool, [1 + i] node i, then one placeholder for each session whose
// leader is dead, in the order of Metadata::sessions.
inline constexpr int the_tool = 0;
inline constexpr int adopter_none = -1;   // forked by its parent
inline constexpr int adopter_outer = -2;  // init or an outer subreaper

struct Birth {
    std::vector<int> forker;   // the_tool's is -1
    std::vector<int> session;  // Metadata::sessions index that the process is born into
    std::vector<int> adopter;  // who becomes the parent when the middle process exits
    std::vector<int> depth;    // number of forkers above
    std::vector<int> leader;   // of each session: a process

    // a == b, or a is among b's forkers.
    [[nodiscard]] bool above(int a, int b) const {
        while (depth[static_cast<std::size_t>(b)] > depth[static_cast<std::size_t>(a)])
            b = forker[static_cast<std::size_t>(b)];
        return a == b;
    }
};

// Fails, naming a pid, when no history of forks, exits and PR_SET_CHILD_SUBREAPER gives these parents and
// sessions.
[[nodiscard]] Result<Birth> find_births(const Metadata& metadata);

}  // namespace cairn::restart::forest
