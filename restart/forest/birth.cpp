#include "restart/forest/birth.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace cairn::restart::forest {

namespace {

constexpr int free_choice = -1;

// A leader that has children born before its setsid must itself have been born into their session. With
// several such sessions, or one whose dead leader may as well have been below it, there is a choice.
struct Choice {
    int process = 0;
    std::vector<int> sessions;  // candidates, the likeliest first; free_choice: born into none of them
};

// What one attempt at building the tree of births ran into.
struct Conflict {
    int first = 0, second = 0;  // neither is above the other, but one must be; 0: no such pair
    int process = 0;            // whom it hit
};

class Births {
  public:
    explicit Births(const Metadata& metadata)
        : data_(metadata), count_(1 + static_cast<int>(data_.nodes.size())) {
        leader_.push_back(the_tool);
        leads_.assign(at(count_), free_choice);
        leads_[the_tool] = 0;
        for (std::size_t s = 1; s < data_.sessions.size(); ++s) {
            const int node = data_.sessions[s].leader;
            leader_.push_back(node == nobody ? count_++ : node + 1);
            if (node == nobody) leads_.push_back(free_choice);
            leads_[at(leader_.back())] = static_cast<int>(s);
        }
        order_children_first();
    }

    Result<Birth> run() {
        // The likeliest choices nearly always fit. If not, one leader is decided otherwise, then two, then
        // three.
        for (std::size_t changes = 0; changes <= 3; ++changes) {
            picks_.clear();
            if (auto birth = search(changes)) return std::move(*birth);
            if (attempts_ >= most_attempts) break;
        }
        const int process = std::max(blamed_, 1);
        const Node* node = at(process) <= data_.nodes.size() ? &data_.nodes[at(process - 1)] : nullptr;
        if (node == nullptr)
            return fail("session {}: no order of forks and exits gives it these members",
                        data_.sessions[at(leads_[at(process)])].id);
        return fail("process {}: no order of forks and exits gives it parent {} and session {}", node->pid,
                    node->ppid, node->sid);
    }

  private:
    static constexpr int most_attempts = 20'000;

    void order_children_first() {
        std::vector<int> todo;
        for (std::size_t i = 0; i < data_.nodes.size(); ++i)
            if (data_.parent[i] < 0) todo.push_back(static_cast<int>(i));
        while (!todo.empty()) {
            const int node = todo.back();
            todo.pop_back();
            bottom_up_.push_back(node);
            todo.insert(todo.end(), data_.children[at(node)].begin(), data_.children[at(node)].end());
        }
        std::reverse(bottom_up_.begin(), bottom_up_.end());
    }

    // A process in Birth's numbering; for parents outside the tool, which is above all.
    [[nodiscard]] int parent_of(int process) const {
        if (process < 1 || at(process) > data_.nodes.size()) return the_tool;
        return std::max(data_.parent[at(process - 1)], -1) + 1;
    }

    // Tries all ways to depart from the likeliest choices in `changes` leaders.
    std::optional<Birth> search(std::size_t changes) {
        if (changes == 0) return try_orders({}, 0);
        decide();
        const std::vector<Choice> open = choices_;
        for (const Choice& choice : open) {
            if (picks_.contains(choice.process)) continue;
            for (const int session : choice.sessions) {
                if (session == choice.sessions.front()) continue;
                if (attempts_ >= most_attempts) return {};
                picks_[choice.process] = session;
                if (auto birth = search(changes - 1)) return birth;
                picks_.erase(choice.process);
            }
        }
        return {};
    }

    // `orders`: pairs (upper, lower) that are put above each other beyond what parents and sessions demand.
    // It is needed when somebody has been a subreaper for a while only, and processes have since left its
    // subtree.
    std::optional<Birth> try_orders(std::vector<std::pair<int, int>> orders, int depth) {
        if (++attempts_ >= most_attempts) return {};
        const std::optional<Conflict> conflict = attempt(orders);
        if (!conflict) return birth_;
        blamed_ = conflict->process;
        if (conflict->first == 0 || depth >= 6) return {};
        for (const auto& pair :
             {std::pair(conflict->first, conflict->second), std::pair(conflict->second, conflict->first)}) {
            orders.push_back(pair);
            if (auto birth = try_orders(orders, depth + 1)) return birth;
            orders.pop_back();
        }
        return {};
    }

    // Sets born_ (the session that each node is born into, where it isn't free) and collects the choices.
    void decide() {
        choices_.clear();
        born_.assign(at(count_), free_choice);
        for (const int node : bottom_up_) {
            const int process = node + 1;
            const int own = data_.session_of[at(node)];
            if (!data_.leads_session(node)) {
                born_[at(process)] = own;
                continue;
            }
            std::vector<int> demanded;
            for (const int child : data_.children[at(node)]) {
                const int session = born_[at(child + 1)];
                if (session != free_choice && session != own &&
                    std::ranges::find(demanded, session) == demanded.end())
                    demanded.push_back(session);
            }
            if (demanded.empty()) continue;
            Choice choice{.process = process, .sessions = rank(node, demanded)};
            born_[at(process)] = choice.sessions.front();
            if (const auto pick = picks_.find(process);
                pick != picks_.end() &&
                std::ranges::find(choice.sessions, pick->second) != choice.sessions.end())
                born_[at(process)] = pick->second;
            if (choice.sessions.size() > 1) choices_.push_back(std::move(choice));
        }
    }

    [[nodiscard]] bool final_ancestor(int upper, int lower) const {  // nodes
        for (; lower >= 0; lower = data_.parent[at(lower)])
            if (lower == upper) return true;
        return false;
    }

    [[nodiscard]] std::vector<int> rank(int node, const std::vector<int>& demanded) const {
        std::vector<std::pair<int, int>> weighed;  // weight, session
        for (const int session : demanded) {
            const int leader = data_.sessions[at(session)].leader;
            if (session == 0 || (leader != nobody && final_ancestor(leader, node))) return {session};
            if (leader != nobody && final_ancestor(node, leader)) continue;
            const int parent = data_.parent[at(node)];
            const bool shared = parent >= 0 && data_.session_of[at(parent)] == session;
            weighed.emplace_back(shared ? 0 : leader != nobody ? 1 : 3, session);
        }
        weighed.emplace_back(data_.nodes[at(node)].subreaper || weighed.size() > 1 ? 2 : 4, free_choice);
        std::ranges::stable_sort(weighed, {}, &std::pair<int, int>::first);
        std::vector<int> ranked;
        for (const auto& [weight, session] : weighed) ranked.push_back(session);
        return ranked;
    }

    // May the process fork into the session: a member, its leader, or a leader-to-be that was born into it?
    [[nodiscard]] bool forks_into(int process, int session) const {
        return leads_[at(process)] == session || born_[at(process)] == session;
    }

    // Everybody who must be above the process, the tool apart.
    [[nodiscard]] std::vector<int> needed(int process) const {
        std::vector<int> all;
        if (const int parent = parent_of(process); parent != the_tool) all.push_back(parent);
        if (const int session = leads_[at(process)]; session > 0)
            all.insert(all.end(), above_[at(session)].begin(), above_[at(session)].end());
        if (const auto found = extra_.find(process); found != extra_.end())
            all.insert(all.end(), found->second.begin(), found->second.end());
        return all;
    }

    std::optional<Conflict> attempt(const std::vector<std::pair<int, int>>& orders) {
        decide();
        extra_.clear();
        for (const auto& [upper, lower] : orders) extra_[lower].push_back(upper);
        if (auto conflict = collect_above()) return conflict;
        birth_ = {};
        birth_.leader = leader_;
        birth_.forker.assign(at(count_), -1);
        birth_.session.assign(at(count_), 0);
        birth_.adopter.assign(at(count_), adopter_none);
        birth_.depth.assign(at(count_), 0);
        state_.assign(at(count_), State::open);
        state_[the_tool] = State::placed;
        for (int process = 1; process < count_; ++process)
            if (auto conflict = place(process)) return conflict;
        for (int process = 1; process <= static_cast<int>(data_.nodes.size()); ++process) {
            const int parent = data_.parent[at(process - 1)];
            if (parent == parent_adoptive)
                birth_.adopter[at(process)] = adopter_outer;
            else if (birth_.forker[at(process)] != parent + 1)
                birth_.adopter[at(process)] = parent + 1;
        }
        return {};
    }

    // Who must be above a session's leader: everybody who is to be above a member without being in the
    // session.
    std::optional<Conflict> collect_above() {
        above_.assign(data_.sessions.size(), {});
        for (bool grown = true; grown;) {
            grown = false;
            for (int process = 1; process < count_; ++process) {
                const int session = born_[at(process)];
                if (session == free_choice) continue;
                for (const int upper : needed(process)) {
                    if (forks_into(upper, session) || upper == process) continue;
                    if (session == 0) return Conflict{.process = process};
                    grown = above_[at(session)].insert(upper).second || grown;
                }
            }
        }
        return {};
    }

    enum class State : std::uint8_t { open, underway, placed };

    // Places everybody who must be above the process, then the process.
    std::optional<Conflict> place(int first) {
        std::vector<int> stack{first};
        while (!stack.empty()) {
            const int process = stack.back();
            if (state_[at(process)] == State::placed) {
                stack.pop_back();
                continue;
            }
            std::vector<int> uppers = needed(process);
            if (const int session = born_[at(process)]; session != free_choice)
                uppers.push_back(leader_[at(session)]);
            state_[at(process)] = State::underway;
            bool ready = true;
            for (const int upper : uppers) {
                if (state_[at(upper)] == State::placed) continue;
                if (state_[at(upper)] == State::underway) return Conflict{.process = process};
                stack.push_back(upper);
                ready = false;
                break;
            }
            if (!ready) continue;
            stack.pop_back();
            if (auto conflict = choose_forker(process)) return conflict;
            state_[at(process)] = State::placed;
        }
        return {};
    }

    std::optional<Conflict> choose_forker(int process) {
        const int session = born_[at(process)];
        int best = session == free_choice ? the_tool : leader_[at(session)];
        for (const int upper : needed(process)) {
            if (session != free_choice && !forks_into(upper, session)) {
                if (!birth_.above(upper, leader_[at(session)]))
                    return Conflict{.first = upper, .second = leader_[at(session)], .process = process};
                continue;
            }
            if (birth_.above(upper, best)) continue;
            if (!birth_.above(best, upper))
                return Conflict{.first = best, .second = upper, .process = process};
            best = upper;
        }
        birth_.forker[at(process)] = best;
        birth_.depth[at(process)] = birth_.depth[at(best)] + 1;
        if (session != free_choice)
            birth_.session[at(process)] = session;
        else
            birth_.session[at(process)] =
                leads_[at(best)] != free_choice ? leads_[at(best)] : born_[at(best)];
        return {};
    }

    const Metadata& data_;
    int count_;
    std::vector<int> leader_;  // of each session
    std::vector<int> leads_;   // session that each process leads, or free_choice
    std::vector<int> bottom_up_;
    std::map<int, int> picks_;
    std::vector<Choice> choices_;
    std::vector<int> born_;
    std::map<int, std::vector<int>> extra_;
    std::vector<std::set<int>> above_;  // of each session
    std::vector<State> state_;
    Birth birth_;
    int attempts_ = 0;
    int blamed_ = 0;
};

}  // namespace

Result<Birth> find_births(const Metadata& metadata) {
    return Births(metadata).run();
}

}  // namespace cairn::restart::forest
