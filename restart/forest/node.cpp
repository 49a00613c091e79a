#include "restart/forest/node.h"

#include <set>

namespace cairn::forest {

namespace {

std::set<Id> adoptive_parents(std::span<const schema::Process> processes, const std::set<Id>& pids) {
    std::set<Id> leaders;
    for (const auto& process : processes)
        if (process.pid == process.sid) leaders.insert(process.pid);
    std::set<Id> adoptive{1};
    for (const auto& process : processes)
        if (!pids.contains(process.ppid) && process.ppid > 0 && process.pid != process.sid &&
            leaders.contains(process.sid))
            adoptive.insert(process.ppid);
    return adoptive;
}

}  // namespace

std::vector<Node> nodes_of(std::span<const schema::Process> processes) {
    std::set<Id> pids;
    for (const auto& process : processes) pids.insert(process.pid);
    const std::set<Id> adoptive = adoptive_parents(processes, pids);

    std::vector<Node> nodes;
    std::set<Id> outer_sessions{0}, outer_groups{0};  // 0: not visible in this pid namespace
    for (const auto& process : processes) {
        Node node{.pid = process.pid,
                  .ppid = process.ppid,
                  .sid = process.sid,
                  .pgid = process.pgid,
                  .subreaper = process.subreaper,
                  .zombie = process.run == schema::Run::zombie,
                  .wait_status = process.exit_status,
                  .exit_signal = process.exit_signal};
        const bool root = !pids.contains(process.ppid);
        node.orphan = root && adoptive.contains(process.ppid);
        const bool launched = root && !node.orphan;
        if (!pids.contains(node.sid) && (launched || process.terminal >= 0)) outer_sessions.insert(node.sid);
        if (!pids.contains(node.pgid) && launched) outer_groups.insert(node.pgid);
        nodes.push_back(node);
    }
    for (auto& node : nodes) {
        node.session_outside = outer_sessions.contains(node.sid);
        node.group_outside = outer_groups.contains(node.pgid);
    }
    return nodes;
}

}  // namespace cairn::forest
