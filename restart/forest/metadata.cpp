#include "restart/forest/metadata.h"

#include <sys/wait.h>

#include <algorithm>
#include <map>

namespace cairn::restart::forest {

namespace {

class Relating {
  public:
    explicit Relating(std::vector<Node> nodes) {
        // Its adoptive parent would reap it before anybody can look.
        std::erase_if(nodes, [&](const Node& node) { return node.zombie && node.orphan; });
        data_.nodes = std::move(nodes);
    }

    Result<Metadata> run() {
        for (auto pass : {&Relating::index, &Relating::parents, &Relating::cycles, &Relating::find_sessions,
                          &Relating::find_groups})
            CHECK_OK((this->*pass)());
        return std::move(data_);
    }

  private:
    [[nodiscard]] int find(Id pid) const {
        const auto found = by_pid_.find(pid);
        return found == by_pid_.end() ? nobody : found->second;
    }

    Result<> index() {
        for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
            const Node& node = data_.nodes[i];
            if (!node.pid.known()) return fail("process {}: not a pid", node.pid);
            if (!by_pid_.emplace(node.pid, static_cast<int>(i)).second)
                return fail("process {}: two images have this pid", node.pid);
            if (node.zombie && !valid_status(node.wait_status))
                return fail("process {}: a zombie with wait status {:#x}, which no exit gives", node.pid,
                            node.wait_status);
        }
        return {};
    }

    static bool valid_status(int status) {
        if (WIFEXITED(status)) return (status & ~0xff00) == 0;
        if (!WIFSIGNALED(status) || (status & ~0xff) != 0 || WTERMSIG(status) > 64) return false;
        switch (WTERMSIG(status)) {  // these stop, continue or do nothing
            case SIGSTOP:
            case SIGTSTP:
            case SIGTTIN:
            case SIGTTOU:
            case SIGCONT:
            case SIGCHLD:
            case SIGURG:
            case SIGWINCH:
                return false;
            default:
                return true;
        }
    }

    Result<> parents() {
        data_.children.resize(data_.nodes.size());
        for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
            const Node& node = data_.nodes[i];
            const int parent = find(node.ppid);
            if (parent == nobody) {
                data_.parent.push_back(node.orphan ? parent_adoptive : parent_tool);
                continue;
            }
            if (data_.nodes[at(parent)].zombie)
                return fail("process {}: its parent {} is a zombie; the kernel would have given it another",
                            node.pid, node.ppid);
            data_.parent.push_back(parent);
            data_.children[at(parent)].push_back(static_cast<int>(i));
        }
        return {};
    }

    Result<> cycles() {
        // Whoever can't be reached from a root has itself among its ancestors.
        std::vector<int> todo;
        std::vector<bool> seen(data_.nodes.size(), false);
        for (std::size_t i = 0; i < data_.nodes.size(); ++i)
            if (data_.parent[i] < 0) todo.push_back(static_cast<int>(i));
        while (!todo.empty()) {
            const int node = todo.back();
            todo.pop_back();
            seen[at(node)] = true;
            todo.insert(todo.end(), data_.children[at(node)].begin(), data_.children[at(node)].end());
        }
        for (std::size_t i = 0; i < data_.nodes.size(); ++i)
            if (!seen[i]) return fail("process {}: it is among its own ancestors", data_.nodes[i].pid);
        return {};
    }

    Result<> find_sessions() {
        data_.sessions.push_back({});
        std::map<Id, int> known;
        for (const Node& node : data_.nodes) {
            const int leader = find(node.sid);
            if (leader != nobody && data_.nodes[at(leader)].sid != node.sid)
                return fail("process {}: it is in session {}, but process {} is in session {}", node.pid,
                            node.sid, node.sid, data_.nodes[at(leader)].sid);
            if (node.pid == node.sid && node.pgid != node.pid)
                return fail(
                    "process {}: it leads its session, but is in group {}; the kernel lets no session leader "
                    "change its group",
                    node.pid, node.pgid);
            auto [found, fresh] = known.emplace(node.sid, static_cast<int>(data_.sessions.size()));
            if (fresh) {
                if (leader == nobody && (node.session_outside || !node.sid.known())) {
                    found->second = 0;
                    data_.outer_sessions.push_back(node.sid);
                } else {
                    data_.sessions.push_back({.id = node.sid, .leader = leader});
                }
            }
            data_.session_of.push_back(found->second);
        }
        session_index_ = std::move(known);
        return {};
    }

    Result<> find_groups() {
        std::map<Id, int> known;
        const Id home = home_group();
        for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
            const Node& node = data_.nodes[i];
            auto [found, fresh] = known.emplace(node.pgid, static_cast<int>(data_.groups.size()));
            if (fresh) {
                Group group{.id = node.pgid, .session = data_.session_of[i], .leader = find(node.pgid)};
                group.initial = group.session == 0 ? node.pgid == home : node.pgid == node.sid;
                group.outside = group.leader == nobody && (node.group_outside || !node.pgid.known());
                if (group.initial && group.session == 0) data_.outer_groups.push_back(group.id);
                data_.groups.push_back(std::move(group));
                first_member_.push_back(static_cast<int>(i));
            }
            data_.group_of.push_back(found->second);
            data_.groups[at(found->second)].members.push_back(static_cast<int>(i));
            CHECK_OK(group_fits(node, found->second));
        }
        return {};
    }

    [[nodiscard]] Result<> group_fits(const Node& node, int index) const {
        const Group& group = data_.groups[at(index)];
        const Node& first = data_.nodes[at(first_member_[at(index)])];
        if (first.sid != node.sid)
            return fail(
                "process {}: its group {} is in session {} too (process {}), but a group is in one session "
                "only, here {}",
                node.pid, node.pgid, first.sid, first.pid, node.sid);
        if (group.leader != nobody && data_.nodes[at(group.leader)].sid != node.sid)
            return fail("process {}: it is in group {} and session {}, but process {} is in session {}",
                        node.pid, node.pgid, node.sid, node.pgid, data_.nodes[at(group.leader)].sid);
        if (session_index_.contains(node.pgid) && node.pgid != node.sid && node.pgid.known())
            return fail("process {}: its group {} belongs to session {}, but it is in session {}", node.pid,
                        node.pgid, node.pgid, node.sid);
        return {};
    }

    // Of the groups that are led from outside one can be the tool's own: that of a launched program, if there
    // is one.
    [[nodiscard]] Id home_group() const {
        const Node* best = nullptr;
        for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
            const Node& node = data_.nodes[i];
            if (data_.session_of[i] != 0 || find(node.pgid) != nobody ||
                !(node.group_outside || !node.pgid.known()))
                continue;
            if (best == nullptr) best = &node;
            if (data_.parent[i] == parent_tool) return node.pgid;
        }
        return best == nullptr ? Id(-1) : best->pgid;
    }

    Metadata data_;
    std::map<Id, int> by_pid_;
    std::map<Id, int> session_index_;
    std::vector<int> first_member_;
};

}  // namespace

Result<Metadata> relate(std::vector<Node> nodes) {
    return Relating(std::move(nodes)).run();
}

}  // namespace cairn::restart::forest
