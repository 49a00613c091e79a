// The plan of a forest: for each process the steps that it takes, from its birth to where its program goes
// on.
//
// A pure function of the nodes. Steps of different processes run at once, in any order that the barriers
// allow; each such order ends in the same forest (simulate.h checks that, execute.h does it). Every process
// takes its steps in three parts:
//   1. forks and setsid. They wait for nobody.
//   2. orphans are made: middle processes exit, while the adopter-to-be is a subreaper and nobody between is.
//   Deeper
//      adopters go first, because an orphan moves up and out of the reach of whoever is passed over.
//   3. groups: leaders make theirs, the others join. A dead leader's group is led by a placeholder until all
//   have
//      joined. Last the zombies exit, and the others become their program.
// Forks come before groups, so that whoever stays in its session's first group (or the tool's) has it from
// birth.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "restart/forest/spaces.h"

namespace cairn::restart::forest {

enum class Role {
    tool,  // process [0]: the restart tool, it takes its steps itself
    node,
    leader,  // placeholder: leads a session or a group for those whose leader is dead, then exits
    middle,  // exits so that its children are orphaned
    keeper,  // keeps a group alive between its leader's leaving and the first other member's coming
    maker,   // makes a pid namespace and its first process, whose parent is its own; then exits
    clerk,   // chooses ids in its pid namespace for those who may not (spaces.h), until all are born
};

enum class Act {
    fork,  // process: the child
    setsid,
    new_pids,    // process: the first in a new pid namespace, into which the next fork goes
    join_group,  // process: whose pid is the group's id (itself: a new group); the_tool: the tool's own group
    subreaper,   // on or off
    signal,      // barrier
    wait,        // barrier
    serve,       // barrier: as wait, and does what a clerk is asked for meanwhile
    reap,        // process: a child of a role other than node, it has exited or soon does
    see_zombie,  // process: a child that becomes a zombie; waited for without being reaped
    exit,        // zombies with their wait status, others with 0
    become,      // tool: done
};

struct Step {
    Act act = Act::become;
    int process = -1;
    int barrier = -1;
    bool on = false;
};

// Reached when it has been signalled `needed` times.
struct Barrier {
    std::string name;
    int needed = 0;
};

struct Process {
    Role role = Role::node;
    Id id{};             // the id that it has to have, exactly or by the id map; 0: any
    bool exact = false;  // with exact ids: take `id` as pid. False too for groups that are led from outside
    int node = -1;       // Plan::nodes
    std::uint64_t space = 0;                 // Node::space, of helpers as well
    std::int32_t inner_id = 0;               // the id that it has to have in there; 0: any
    std::vector<std::int32_t> ids_around{};  // and in those around, the innermost first; none: any
    int forker = -1;
    std::string name{};  // for messages: "process 12", "middle child of 12"
    std::vector<Step> steps{};
};

struct Plan {
    std::vector<Node> nodes;  // without those that init would reap at once
    std::vector<Process> processes;
    std::vector<Barrier> barriers;
    Spaces spaces;
    std::vector<Id> outer_sessions,
        outer_groups;  // ids that mean the tool's session and group in the new forest
};

// Whom the forker of a process has to ask for ids, and for which: those are handed out next.
struct Question {
    int clerk = 0;
    std::int32_t id = 0;
};
[[nodiscard]] std::vector<Question> questions_of(const Plan& plan, int process);

// Fails with the pid's name for input that no history leaves behind.
[[nodiscard]] Result<Plan> make_plan(std::vector<Node> nodes);

// One line for each step, for logs and `cairn restart --check`.
[[nodiscard]] std::string describe(const Plan& plan);
[[nodiscard]] std::string describe(const Plan& plan, const Step& step);

}  // namespace cairn::restart::forest
