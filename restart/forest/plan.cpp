#include "restart/forest/plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "restart/forest/birth.h"

namespace cairn::restart::forest {

namespace {

// The exits that make orphans of one adopter: all of them between its becoming a subreaper and its ceasing to
// be one.
struct Adoption {
    int open = -1;            // barrier: the adopter is a subreaper now
    int below = -1;           // barrier: all adopters below it are done
    int done = -1;            // barrier: all its orphans are made
    int next = adopter_none;  // the nearest adopter above
};

struct GroupSteps {
    int led_by = -1;  // process whose pid is the group's id
    int exists = -1;  // barrier
    int joined = -1;  // barrier: everybody who joins by setpgid has
};

class Planning {
  public:
    Planning(Metadata metadata, Spaces spaces, Birth birth)
        : data_(std::move(metadata)), birth_(std::move(birth)) {
        plan_.spaces = std::move(spaces);
    }

    Plan run() {
        make_processes();
        make_groups();
        make_middles();
        make_adoptions();
        for (int process = 0; process < named_; ++process) write_steps(process);
        add_clerks();
        plan_.nodes = data_.nodes;
        plan_.outer_sessions = data_.outer_sessions;
        plan_.outer_groups = data_.outer_groups;
        return std::move(plan_);
    }

  private:
    int add_process(Process process) {
        plan_.processes.push_back(std::move(process));
        return static_cast<int>(plan_.processes.size()) - 1;
    }
    int add_barrier(std::string name, int needed) {
        if (needed == 0) return -1;
        plan_.barriers.push_back({std::move(name), needed});
        return static_cast<int>(plan_.barriers.size()) - 1;
    }
    std::vector<Step>& steps(int process) { return plan_.processes[at(process)].steps; }
    [[nodiscard]] const std::string& name(int process) const { return plan_.processes[at(process)].name; }
    void act(int process, Act act, int target = -1) {
        steps(process).push_back({.act = act, .process = target});
    }
    void subreaper(int process, bool on) { steps(process).push_back({.act = Act::subreaper, .on = on}); }
    void signal(int process, int barrier) {
        if (barrier >= 0) steps(process).push_back({.act = Act::signal, .barrier = barrier});
    }
    void wait(int process, int barrier) {
        if (barrier >= 0) steps(process).push_back({.act = Act::wait, .barrier = barrier});
    }

    [[nodiscard]] int node_of(int process) const { return plan_.processes[at(process)].node; }
    [[nodiscard]] int leads(int process) const { return leads_[at(process)]; }  // a session or -1

    void make_processes() {
        add_process({.role = Role::tool, .name = "the restart tool"});
        for (std::size_t i = 0; i < data_.nodes.size(); ++i)
            add_process({.role = Role::node,
                         .id = data_.nodes[i].pid,
                         .exact = true,
                         .node = static_cast<int>(i),
                         .space = data_.nodes[i].space,
                         .inner_id = data_.nodes[i].inner_pid,
                         .ids_around = ids_around(data_.nodes[i]),
                         .forker = birth_.forker[i + 1],
                         .name = fmt::format("process {}", data_.nodes[i].pid)});
        for (std::size_t s = 1; s < data_.sessions.size(); ++s)
            if (const int leader = birth_.leader[s]; data_.sessions[s].leader == nobody) {
                const Numbers own = numbers_of_dead(s, false);
                add_process({.role = Role::leader,
                             .id = data_.sessions[s].id,
                             .exact = true,
                             .space = own.space,
                             .inner_id = own.ids.empty() ? 0 : own.ids.front(),
                             .ids_around = rest_of(own.ids),
                             .forker = birth_.forker[at(leader)],
                             .name = fmt::format("leader of session {} whose leader has exited",
                                                 data_.sessions[s].id)});
            }
        named_ = static_cast<int>(plan_.processes.size());
        leads_.assign(at(named_), -1);
        for (std::size_t s = 0; s < data_.sessions.size(); ++s)
            leads_[at(birth_.leader[s])] = static_cast<int>(s);
        children_.resize(at(named_));
        for (int process = 1; process < named_; ++process)
            children_[at(birth_.forker[at(process)])].push_back(process);
        for (std::size_t i = 0; i < data_.nodes.size(); ++i)
            if (data_.nodes[i].zombie) zombies_[data_.parent[i] + 1].push_back(static_cast<int>(i) + 1);
    }

    [[nodiscard]] static std::vector<std::int32_t> rest_of(const std::vector<std::int32_t>& ids) {
        return ids.empty() ? ids : std::vector<std::int32_t>(ids.begin() + 1, ids.end());
    }
    [[nodiscard]] static std::vector<std::int32_t> ids_around(const Node& node) {
        std::vector<std::int32_t> ids;
        for (const auto& each : node.around) ids.push_back(each.pid);
        return ids;
    }

    // Of a leader who has exited: as those know it who are in its session or group, and deepest below.
    [[nodiscard]] Numbers numbers_of_dead(std::size_t which, bool group) const {
        Numbers best;
        for (std::size_t i = 0; i < data_.nodes.size(); ++i) {
            if ((group ? data_.group_of : data_.session_of)[i] != static_cast<int>(which)) continue;
            if (auto known = numbers_of_leader(plan_.spaces, data_.nodes[i], group);
                known && known->ids.size() > best.ids.size())
                best = std::move(*known);
        }
        return best;
    }

    [[nodiscard]] int first_of(std::uint64_t space) const { return plan_.spaces.at(space).first + 1; }

    // In a pid namespace a group that is led from outside has no number: it comes with the birth.
    [[nodiscard]] bool has_group_from_birth(int node) const {
        return data_.nodes[at(node)].space != 0 && data_.nodes[at(node)].inner_pgid == 0;
    }

    // A process whose pid is the id of a group of which it is no member (any more).
    [[nodiscard]] bool has_left(const Group& group) const {
        return group.leader != nobody && data_.nodes[at(group.leader)].pgid != group.id;
    }

    // The group of its own that a node has left, or -1.
    [[nodiscard]] int left_group(int node) const {
        const auto found = left_.find(node);
        return found == left_.end() ? -1 : found->second;
    }

    // Does the node get into its group by setpgid (true), or has it been in it from birth?
    [[nodiscard]] bool joins(int node) const {
        const Group& group = data_.groups[at(data_.group_of[at(node)])];
        // Its maker joins for the first process, unless it has it by its own birth.
        if (const Node& its = data_.nodes[at(node)]; has_group_from_birth(node))
            return its.first_of_space() && !group.initial &&
                   (its.around.empty() || its.around.front().pgid != 0);
        return !group.initial || left_group(node) >= 0;
    }

    void make_groups() {
        for (std::size_t g = 0; g < data_.groups.size(); ++g)
            if (has_left(data_.groups[g])) left_[data_.groups[g].leader] = static_cast<int>(g);
        for (const Group& group : data_.groups) {
            GroupSteps made;
            int joiners = 0;
            for (const int member : group.members)
                if (joins(member) && member != group.leader) ++joiners;
            const int session_leader = birth_.leader[at(group.session)];
            if (group.initial) {
                made.led_by = session_leader;
            } else {
                made.exists = add_barrier(fmt::format("group {} exists", group.id), 1);
                if (group.leader != nobody) {
                    made.led_by = group.leader + 1;
                } else {
                    const auto index = static_cast<std::size_t>(&group - data_.groups.data());
                    const Numbers own = numbers_of_dead(index, true);
                    const bool elsewhere = own.space != plan_.processes[at(session_leader)].space;
                    const int forker = own.space != 0 && elsewhere ? first_of(own.space) : session_leader;
                    made.led_by = add_process(
                        {.role = Role::leader,
                         .id = group.id,
                         .exact = !group.outside,
                         .space = own.space,
                         .inner_id = own.ids.empty() ? 0 : own.ids.front(),
                         .ids_around = rest_of(own.ids),
                         .forker = forker,
                         .name = fmt::format("leader of group {} whose leader {}", group.id,
                                             group.outside ? "is no process of this part" : "has exited")});
                    group_leaders_[forker].push_back(made.led_by);
                }
            }
            made.joined = add_barrier(fmt::format("all have joined group {}", group.id), joiners);
            if (!group.initial && group.leader == nobody) {
                act(made.led_by, Act::join_group, made.led_by);
                signal(made.led_by, made.exists);
                wait(made.led_by, made.joined);
                act(made.led_by, Act::exit);
            }
            groups_.push_back(made);
        }
    }

    // One middle process for all orphans of one adopter that one process forks in one session.
    void make_middles() {
        for (int forker = 0; forker < named_; ++forker)
            for (const int child : children_[at(forker)]) {
                const int adopter = birth_.adopter[at(child)];
                if (adopter == adopter_none) continue;
                const bool late = birth_.session[at(child)] == leads(forker);
                auto [found, fresh] = middles_.emplace(std::tuple(forker, adopter, late), -1);
                if (fresh) {
                    found->second = add_process({.role = Role::middle,
                                                 .space = plan_.processes[at(forker)].space,
                                                 .forker = forker,
                                                 .name = fmt::format("middle child of {}", name(forker))});
                    ++orphanings_[adopter];
                }
                plan_.processes[at(child)].forker = found->second;
                act(found->second, Act::fork, child);
            }
    }

    void make_adoptions() {
        int middles = 0;
        for (const auto& [adopter, count] : orphanings_) {
            Adoption made;
            const std::string who = adopter == adopter_outer ? "init" : name(adopter);
            if (adopter != adopter_outer) made.open = add_barrier(fmt::format("{} is a subreaper", who), 1);
            made.done = add_barrier(fmt::format("all orphans of {} are made", who), count);
            adoptions_[adopter] = made;
            middles += count;
        }
        std::map<int, int> directly_below;
        for (auto& [adopter, adoption] : adoptions_) {
            if (adopter == adopter_outer) continue;
            adoption.next = adoptions_.contains(adopter_outer) ? adopter_outer : adopter_none;
            for (int above = birth_.forker[at(adopter)]; above >= 0; above = birth_.forker[at(above)])
                if (adoptions_.contains(above)) {
                    adoption.next = above;
                    break;
                }
            if (adoption.next != adopter_none) ++directly_below[adoption.next];
        }
        for (const auto& [adopter, count] : directly_below)
            adoptions_[adopter].below =
                add_barrier(fmt::format("all orphans are made that {} must not get",
                                        adopter == adopter_outer ? "init" : name(adopter)),
                            count);
        all_orphaned_ = add_barrier("all orphans are made", middles);
        for (const auto& [key, middle] : middles_) {
            const Adoption& adoption = adoptions_[std::get<1>(key)];
            wait(middle, adoption.open >= 0 ? adoption.open : adoption.below);
            act(middle, Act::exit);
        }
    }

    void write_steps(int process) {
        const int session = leads(process);
        write_forks(process, false);
        if (session > 0) act(process, Act::setsid);
        write_forks(process, true);
        if (const auto found = group_leaders_.find(process); found != group_leaders_.end())
            for (const int leader : found->second) act(process, Act::fork, leader);
        const int keeper = node_of(process) >= 0 ? write_own_groups(process) : -1;
        write_adoption(process);
        write_reaps(process);
        if (node_of(process) >= 0) write_group(process);
        if (keeper >= 0) act(process, Act::reap, keeper);
        if (const auto found = makers_.find(process); found != makers_.end())
            for (const int maker : found->second) act(process, Act::reap, maker);
        if (const auto found = group_leaders_.find(process); found != group_leaders_.end())
            for (const int leader : found->second) act(process, Act::reap, leader);
        for (const int child : children_[at(process)])
            if (node_of(child) < 0) act(process, Act::reap, child);
        write_end(process);
    }

    // Before setsid (late = false) the children that are born into the session that the leader-to-be comes
    // from.
    void write_forks(int process, bool late) {
        for (const int child : children_[at(process)])
            if (birth_.adopter[at(child)] == adopter_none && is_late(process, child) == late)
                act(process, Act::fork, is_first_of_space(child) ? add_maker(process, child) : child);
        for (const auto& [key, middle] : middles_)
            if (std::get<0>(key) == process && (leads(process) < 0 || std::get<2>(key)) == late)
                act(process, Act::fork, middle);
    }
    [[nodiscard]] bool is_late(int forker, int child) const {
        return leads(forker) < 0 || birth_.session[at(child)] == leads(forker);
    }

    [[nodiscard]] bool is_first_of_space(int process) const {
        return node_of(process) >= 0 && data_.nodes[at(node_of(process))].first_of_space();
    }

    // Nobody can put his own next child into a pid namespace and go on having children in the old one.
    int add_maker(int parent, int first) {
        const int maker = add_process({.role = Role::maker,
                                       .space = plan_.processes[at(parent)].space,
                                       .forker = parent,
                                       .name = fmt::format("maker of the pid namespace of {}", name(first))});
        plan_.processes[at(first)].forker = maker;
        makers_[parent].push_back(maker);
        const GroupSteps& group = groups_[at(data_.group_of[at(node_of(first))])];
        const bool brings_group = has_group_from_birth(node_of(first)) && joins(node_of(first));
        if (brings_group) {
            wait(maker, group.exists);
            act(maker, Act::join_group, group.led_by);
        }
        act(maker, Act::new_pids, first);
        act(maker, Act::fork, first);
        if (brings_group) signal(maker, group.joined);
        act(maker, Act::exit);
        return maker;
    }

    // Whoever is chosen for says that it is there.
    void add_clerks() {
        for (auto& [id, space] : plan_.spaces) {
            bool needed = false;
            for (const auto& [below, other] : plan_.spaces) {
                const auto chain = chain_of(plan_.spaces, below);
                const auto level = std::ranges::find(chain, id) - chain.begin();
                needed = needed || (level < std::ssize(chain) && level >= other.chosen);
            }
            if (!needed) continue;
            const auto& first = data_.nodes[at(space.first)];
            space.clerk =
                add_process({.role = Role::clerk,
                             .space = id,
                             .forker = space.first + 1,
                             .name = fmt::format("clerk of the pid namespace of process {}", first.pid)});
        }
        std::map<int, int> asked;  // clerk -> how often
        std::vector<std::vector<Question>> questions;
        const auto count = static_cast<int>(plan_.processes.size());
        for (int process = 0; process < count; ++process) {
            questions.push_back(questions_of(plan_, process));
            for (const auto& question : questions.back()) ++asked[question.clerk];
        }
        for (const auto& [clerk, number] : asked) {
            const int born =
                add_barrier(fmt::format("all are born whom {} chooses for", name(clerk)), number);
            steps(clerk).push_back({.act = Act::serve, .barrier = born});
            act(clerk, Act::exit);
            for (int process = 0; process < count; ++process)
                for (const auto& question : questions[at(process)])
                    if (question.clerk == clerk)
                        steps(process).insert(steps(process).begin(), {.act = Act::signal, .barrier = born});
            auto& parents = steps(plan_.processes[at(clerk)].forker);
            parents.insert(parents.begin(), {.act = Act::fork, .process = clerk});
            parents.insert(parents.end() - 1, {.act = Act::reap, .process = clerk});
        }
    }

    void write_adoption(int process) {
        const auto found = adoptions_.find(process);
        if (found == adoptions_.end()) return;
        const Adoption& adoption = found->second;
        wait(process, adoption.below);
        subreaper(process, true);
        signal(process, adoption.open);
        wait(process, adoption.done);
        subreaper(process, false);
        if (adoption.next != adopter_none) signal(process, adoptions_[adoption.next].below);
    }

    // A middle process exits only when its orphans' adopter is ready, and deeper adopters are ready first.
    void write_reaps(int process) {
        std::vector<std::pair<int, int>> reaps;  // adopter, middle
        for (const auto& [key, middle] : middles_)
            if (std::get<0>(key) == process) reaps.emplace_back(std::get<1>(key), middle);
        std::ranges::stable_sort(
            reaps, [&](const auto& a, const auto& b) { return height(a.first) > height(b.first); });
        for (const auto& [adopter, middle] : reaps) {
            act(process, Act::reap, middle);
            signal(process, adoptions_[adopter].done);
            signal(process, all_orphaned_);
        }
    }
    [[nodiscard]] int height(int adopter) const {
        return adopter == adopter_outer ? -1 : birth_.depth[at(adopter)];
    }

    // Those that it leads, now that all its children are born: a maker may wait for one, and adopters for
    // whom it makes. Gives the keeper of one that it has left, or -1.
    int write_own_groups(int process) {
        const int node = node_of(process);
        const Group& group = data_.groups[at(data_.group_of[at(node)])];
        int keeper = -1;
        if (const int left = left_group(node); left >= 0) {
            act(process, Act::join_group, process);
            keeper = add_process({.role = Role::keeper,
                                  .space = plan_.processes[at(process)].space,
                                  .forker = process,
                                  .name = fmt::format("keeper of group {}", data_.groups[at(left)].id)});
            wait(keeper, groups_[at(left)].joined);
            act(keeper, Act::exit);
            act(process, Act::fork, keeper);
            signal(process, groups_[at(left)].exists);
        }
        if (group.leader == node && !group.initial) {
            act(process, Act::join_group, process);
            signal(process, groups_[at(data_.group_of[at(node)])].exists);
        }
        return keeper;
    }

    void write_group(int process) {
        const int node = node_of(process);
        const Group& group = data_.groups[at(data_.group_of[at(node)])];
        const GroupSteps& mine = groups_[at(data_.group_of[at(node)])];
        if (group.leader == node || !joins(node) || has_group_from_birth(node)) return;
        wait(process, mine.exists);
        act(process, Act::join_group, mine.led_by);
        signal(process, mine.joined);
    }

    void write_end(int process) {
        const int node = node_of(process);
        if (node >= 0 && data_.nodes[at(node)].subreaper && !data_.nodes[at(node)].zombie) {
            wait(process, all_orphaned_);
            subreaper(process, true);
        }
        if (const auto found = zombies_.find(process); found != zombies_.end())
            for (const int zombie : found->second) act(process, Act::see_zombie, zombie);
        if (process == the_tool) return act(process, Act::become);
        if (node >= 0) return act(process, data_.nodes[at(node)].zombie ? Act::exit : Act::become);
        for (std::size_t g = 0; g < data_.groups.size();
             ++g)  // a placeholder's session has its first group too
            if (data_.groups[g].initial && data_.groups[g].session == leads(process))
                wait(process, groups_[g].joined);
        act(process, Act::exit);
    }

    Metadata data_;
    Birth birth_;
    Plan plan_;
    int named_ = 0;  // processes that Birth knows
    std::vector<int> leads_;
    std::vector<std::vector<int>> children_;
    std::map<int, std::vector<int>> zombies_;        // parent -> children
    std::map<int, int> left_;                        // node -> group
    std::map<int, std::vector<int>> makers_;         // parent of a namespace's first process -> makers
    std::vector<GroupSteps> groups_;                 // as Metadata::groups
    std::map<int, std::vector<int>> group_leaders_;  // session leader -> placeholders that lead groups
    std::map<std::tuple<int, int, bool>, int>
        middles_;                    // forker, adopter, after the forker's setsid -> process
    std::map<int, int> orphanings_;  // adopter -> number of middles
    std::map<int, Adoption> adoptions_;
    int all_orphaned_ = -1;
};

}  // namespace

std::vector<Question> questions_of(const Plan& plan, int process) {
    const Process& born = plan.processes[at(process)];
    std::vector<Question> questions;
    if (born.space == 0) return questions;
    const auto chain = chain_of(plan.spaces, born.space);
    for (std::size_t level = born.inner_id == 0 ? 0 : at(plan.spaces.at(born.space).chosen);
         level < chain.size(); ++level) {
        const Space& space = plan.spaces.at(chain[level]);
        if (space.clerk < 0 || space.clerk == process) continue;
        const bool any = born.inner_id == 0;
        const std::int32_t wanted = any ? space.last + 1 : born.ids_around[level - 1];
        questions.push_back({space.clerk, wanted});
    }
    return questions;
}

Result<Plan> make_plan(std::vector<Node> nodes) {
    auto metadata = TRY(relate(std::move(nodes)));
    auto spaces = TRY(find_spaces(metadata));
    auto birth = TRY(find_births(metadata));
    return Planning(std::move(metadata), std::move(spaces), std::move(birth)).run();
}

}  // namespace cairn::restart::forest
