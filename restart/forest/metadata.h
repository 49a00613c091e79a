// The relations between the nodes of a forest, checked: who is whose parent, which sessions and groups there
// are, and who leads them.
#pragma once

#include <vector>

#include "common/error.h"
#include "restart/forest/node.h"

namespace cairn::restart::forest {

inline constexpr int parent_tool = -1;      // the node is a child of the restart tool
inline constexpr int parent_adoptive = -2;  // of whoever adopts the tool's orphans
inline constexpr int nobody = -1;

struct Session {
    Id id{};              // 0: the tool's own session, into which all sessions from outside fall
    int leader = nobody;  // node; nobody: dead (or, for the tool's session, the tool or who started it)
};

struct Group {
    Id id{};
    int session = 0;
    int leader = nobody;         // the node whose pid is the group's id; it needn't be a member (any more)
    bool initial = false;        // what a new process of the session is in: its leader's group, or the tool's
    bool outside = false;        // led from outside: its id can't be had again
    std::vector<int> members{};  // nodes
};

struct Metadata {
    std::vector<Node> nodes;
    std::vector<int> parent;  // of each node: a node, parent_tool or parent_adoptive
    std::vector<std::vector<int>> children;
    std::vector<int> session_of, group_of;  // of each node
    std::vector<Session> sessions;          // [0]: the tool's
    std::vector<Group> groups;
    std::vector<Id> outer_sessions;  // ids that mean the tool's session in the new forest
    std::vector<Id> outer_groups;    // ids that mean the tool's group

    [[nodiscard]] bool leads_session(int node) const {
        return sessions[static_cast<std::size_t>(session_of[static_cast<std::size_t>(node)])].leader == node;
    }
};

// Zombies whose parent is the adoptive one are left out: init reaps them at once. Fails, naming the pid, for
// ids that no history of fork, setsid, setpgid and exit leaves behind: a pid twice, a cycle of parents, a
// group in two sessions, a leader outside of its own session, children of a zombie, a wait status that no
// exit gives.
[[nodiscard]] Result<Metadata> relate(std::vector<Node> nodes);

}  // namespace cairn::restart::forest
