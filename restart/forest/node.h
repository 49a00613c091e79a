// What the forest of a restart is made from: the ids and the state of each process of one part.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/schema/process.h"

namespace cairn::restart::forest {

using Id = ProgramId;  // of a process, process group or session

// Nodes and processes refer to each other by index, -1 where there is none.
inline std::size_t at(int index) {
    return static_cast<std::size_t>(index);
}

struct Node {
    Id pid{}, ppid{}, sid{}, pgid{};
    bool subreaper = false;  // PR_SET_CHILD_SUBREAPER
    bool zombie = false;
    std::int32_t wait_status = 0;        // zombie: what wait() will say, WCOREDUMP included
    std::int32_t exit_signal = SIGCHLD;  // zombie: what its parent got when it died; the living are execed,
                                         // which makes it SIGCHLD (execve(2))
    // The parent is no process of the part, and it isn't who started this one: init or an outer subreaper has
    // adopted it. Comes back with the adoptive parent of the restart tool's orphans. Others are children of
    // the tool.
    bool orphan = false;
    // The session's leader (the group's) is no process of the part and lives. Such a process stays in the
    // session (the group) of the restart tool. Without the flag an id that no process has is one whose leader
    // has exited.
    bool session_outside = false, group_outside = false;
    // In a pid namespace of the part's own: which, and the ids in there; 0: led from outside of it.
    std::uint64_t space = 0;
    std::int32_t inner_pid = 0, inner_pgid = 0, inner_sid = 0;
    std::int32_t inner_last = 0;                 // the highest id in there that it has, of its threads too
    std::vector<schema::NamespaceIds> around{};  // in those that it is below, the innermost first
    std::int64_t owner = -1;                     // of its first process: OwnPids::owner

    [[nodiscard]] bool first_of_space() const { return space != 0 && inner_pid == 1; }
};

// Fills nodes from images. What the images don't say is inferred: a process whose parent is outside counts as
// an orphan if that parent is init (pid 1), if it sits in another member's session (a launched program never
// does), or if its parent is that of a sure orphan (an outer subreaper); a session without leader counts as
// outside if it has a controlling terminal (the kernel takes it from all when the leader exits), a launched
// program is in it, or a stranger was seen to lead it. A program whose launcher has ended is still a launched
// one: it comes back as a child of the tool.
[[nodiscard]] std::vector<Node> nodes_of(std::span<const schema::Process> processes);

}  // namespace cairn::restart::forest
