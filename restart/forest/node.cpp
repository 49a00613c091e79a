#include "restart/forest/node.h"

#include <algorithm>
#include <set>

namespace cairn::restart::forest {

namespace {

std::set<Id> adoptive_parents(std::span<const schema::Process> processes, const std::set<Id>& pids) {
    std::set<Id> leaders;
    for (const auto& process : processes)
        if (process.pid == process.sid) leaders.insert(process.pid);
    std::set<Id> adoptive{Id(1)};
    for (const auto& process : processes)
        if (!pids.contains(process.ppid) && process.ppid.known() && process.pid != process.sid &&
            leaders.contains(process.sid))
            adoptive.insert(process.ppid);
    return adoptive;
}

// Of processes whose parent is init by now: one whom `cairn launch` has started, from a script or a subshell
// that has ended since, is as good as its launcher's child; who starts the restart is its launcher now. The
// first process of a computation is known to be one; others are where a stranger leads the session: a program
// that makes itself nobody's child (daemon(3)) leaves it.
bool was_launched(const schema::Process& process, const std::set<Id>& pids) {
    if (process.run == schema::Run::zombie || (pids.contains(process.sid) && process.sid != process.pid))
        return false;
    return process.session_led_outside || (!process.uid.empty() && process.uid == process.cid);
}

}  // namespace

std::vector<Node> nodes_of(std::span<const schema::Process> processes) {
    std::set<Id> pids;
    for (const auto& process : processes) pids.insert(process.pid);
    const std::set<Id> adoptive = adoptive_parents(processes, pids);

    std::vector<Node> nodes;
    std::set<Id> outer_sessions{Id()}, outer_groups{Id()};  // 0: not visible in this pid namespace
    for (const auto& process : processes) {
        Node node{.pid = process.pid,
                  .ppid = process.ppid,
                  .sid = process.sid,
                  .pgid = process.pgid,
                  .subreaper = process.subreaper,
                  .zombie = process.run == schema::Run::zombie,
                  .wait_status = process.exit_status,
                  .exit_signal = process.exit_signal};
        if (const auto& own = process.own_pids) {
            node.space = own->space;
            node.inner_pid = own->pid;
            node.inner_pgid = own->pgid;
            node.inner_sid = own->sid;
            node.around = own->around.value_or(std::vector<schema::NamespaceIds>{});
            node.owner = own->owner;
            node.inner_last = std::max({own->pid, own->pgid, own->sid});
            for (const auto& thread : process.threads)
                node.inner_last = std::max(node.inner_last, thread.own_tid.value_or(0));
        }
        const bool root = !pids.contains(process.ppid);
        node.orphan = root && adoptive.contains(process.ppid) && !was_launched(process, pids);
        const bool launched = root && !node.orphan;
        if (!pids.contains(node.sid) && (launched || process.terminal >= 0 || process.session_led_outside))
            outer_sessions.insert(node.sid);
        if (!pids.contains(node.pgid) && (launched || process.group_led_outside))
            outer_groups.insert(node.pgid);
        nodes.push_back(node);
    }
    for (auto& node : nodes) {
        node.session_outside = outer_sessions.contains(node.sid);
        node.group_outside = outer_groups.contains(node.pgid);
    }
    return nodes;
}

}  // namespace cairn::restart::forest
