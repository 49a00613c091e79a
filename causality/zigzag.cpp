// Zigzag paths between checkpoints: useless ones, recovery lines, and how they can be searched.
#include <algorithm>
#include <numeric>

#include "causality/pattern.h"

namespace cairn::causality {

Zigzag::Zigzag(const Pattern& pattern) {
    first_.push_back(0);
    for (Process p = 0; p < pattern.processes(); ++p) first_.push_back(first_.back() + pattern.intervals(p));
    connect(pattern);
    find_components();
}

// Edges by their beginnings (CSR). A message of one send and one receive is an edge; one of several sends or
// receives, a collective operation, is a node of its own behind the intervals.
void Zigzag::connect(const Pattern& pattern) {
    struct Ends {
        Node sender = none, receiver = none;
        bool several = false;
        Node hub = none;
    };
    const Process n = pattern.processes();
    std::vector<Ends> ends(pattern.messages());
    std::vector<std::uint32_t> interval(n, 1);
    const auto walk = [&](const auto& visit) {
        std::fill(interval.begin(), interval.end(), 1U);
        for (const Pattern::Step& step : pattern.steps()) {
            const Process p = step.process();
            if (step.what() == Pattern::What::send || step.what() == Pattern::What::receive)
                visit(step.message, node(p, interval[p]), step.what() == Pattern::What::send);
            else
                ++interval[p];
        }
    };
    walk([&](std::uint32_t message, Node at, bool sends) {
        Node& end = sends ? ends[message].sender : ends[message].receiver;
        ends[message].several = ends[message].several || end != none;
        end = at;
    });
    Node nodes = first_.back();
    std::vector<std::pair<Node, Node>> found;
    std::vector<std::uint32_t> by_message;
    std::size_t count = 0;
    for (Ends& each : ends) {
        if (each.several) each.hub = nodes++;
        if (each.sender != none && each.receiver != none && !each.several) ++count;
    }
    found.reserve(count);
    by_message.reserve(count);
    for (std::uint32_t message = 0; message < ends.size(); ++message) {
        const Ends& each = ends[message];
        // Within one interval: no news.
        if (each.several || each.sender == none || each.receiver == none || each.sender == each.receiver)
            continue;
        found.emplace_back(each.sender, each.receiver);
        by_message.push_back(message);
    }
    if (nodes > first_.back())
        walk([&](std::uint32_t message, Node at, bool sends) {
            const Node hub = ends[message].hub;
            if (hub == none) return;
            found.emplace_back(sends ? at : hub, sends ? hub : at);
            by_message.push_back(message);
        });
    ends = {};

    begin_.assign(nodes + 1, 0);
    back_begin_.assign(nodes + 1, 0);
    for (const auto& [from, to] : found) {
        ++begin_[from + 1];
        ++back_begin_[to + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::partial_sum(back_begin_.begin(), back_begin_.end(), back_begin_.begin());
    edges_.resize(found.size());
    message_.resize(found.size());
    back_edges_.resize(found.size());
    std::vector<Node> at(begin_.begin(), begin_.end() - 1),
        back_at(back_begin_.begin(), back_begin_.end() - 1);
    for (std::size_t i = 0; i < found.size(); ++i) {
        message_[at[found[i].first]] = by_message[i];
        edges_[at[found[i].first]++] = found[i].second;
        back_edges_[back_at[found[i].second]++] = found[i].first;
    }
}

Process Zigzag::process_of(Node node) const {
    return static_cast<Process>(std::upper_bound(first_.begin(), first_.end(), node) - first_.begin() - 1);
}

// Tarjan's algorithm, without recursion.
void Zigzag::find_components() {
    const auto nodes = static_cast<Node>(begin_.size() - 1);
    component_.assign(nodes, none);
    std::vector<std::uint32_t> seen(nodes), low(nodes);
    std::vector<Node> stack;
    struct Call {
        Node node;
        std::uint32_t next;  // edge; one behind the last is the way to the next interval
    };
    std::vector<Call> calls;
    std::vector<bool> last(nodes, true);
    for (Process p = 0; p < processes(); ++p)
        for (Node each = first_[p]; each + 1 < first_[p + 1]; ++each) last[each] = false;
    std::uint32_t clock = 0, count = 0;
    const auto enter = [&](Node node) {
        seen[node] = low[node] = ++clock;
        stack.push_back(node);
        calls.push_back({node, begin_[node]});
    };
    for (Node start = 0; start < nodes; ++start) {
        if (seen[start] != 0) continue;
        enter(start);
        while (!calls.empty()) {
            const Node at = calls.back().node;
            const std::uint32_t edge = calls.back().next;
            if (edge < begin_[at + 1] || (edge == begin_[at + 1] && !last[at])) {
                ++calls.back().next;
                const Node to = edge < begin_[at + 1] ? edges_[edge] : at + 1;
                if (seen[to] == 0)
                    enter(to);
                else if (component_[to] == none)
                    low[at] = std::min(low[at], seen[to]);
                continue;
            }
            calls.pop_back();
            if (!calls.empty()) low[calls.back().node] = std::min(low[calls.back().node], low[at]);
            if (low[at] != seen[at]) continue;
            Node member = none;
            do {
                member = stack.back();
                stack.pop_back();
                component_[member] = count;
            } while (member != at);
            ++count;
        }
    }
}

// The first interval of each process that a path leads to; one behind its last if none does. `depth`:
// messages on the way, of each process the most.
std::vector<std::uint32_t> Zigzag::reach(std::span<const Node> from,
                                         std::vector<std::uint32_t>* depth) const {
    const Process n = processes();
    std::vector<std::uint32_t> first(n);
    for (Process p = 0; p < n; ++p) first[p] = intervals(p) + 1;
    if (depth != nullptr) depth->assign(n, 0);
    // Breadth first: a level is what one more message reaches. Later intervals of a process are in with an
    // earlier one.
    std::vector<Node> level(from.begin(), from.end()), next;
    std::vector<bool> hub(begin_.size() - 1 - first_.back());
    std::uint32_t round = 0;
    while (!level.empty()) {
        for (const Node each : level) {
            if (!is_interval(each)) {
                const Node number = each - first_.back();
                if (hub[number]) continue;
                hub[number] = true;
                next.insert(next.end(), edges(each).begin(), edges(each).end());
                continue;
            }
            const Process p = process_of(each);
            const std::uint32_t interval = each - first_[p] + 1;
            if (interval >= first[p]) continue;
            if (depth != nullptr) (*depth)[p] = round;
            for (std::uint32_t i = interval; i < first[p]; ++i)
                if (i <= intervals(p))
                    next.insert(next.end(), edges(node(p, i)).begin(), edges(node(p, i)).end());
            first[p] = interval;
        }
        level.swap(next);
        next.clear();
        ++round;
    }
    return first;
}

// The last interval of each process from which a path leads to one of these; 0 if there is none.
std::vector<std::uint32_t> Zigzag::reach_back(std::span<const Node> from) const {
    std::vector<std::uint32_t> last(processes(), 0);
    std::vector<Node> todo(from.begin(), from.end());
    std::vector<bool> hub(begin_.size() - 1 - first_.back());
    const auto follow = [&](Node each) {
        todo.insert(todo.end(), back_edges_.begin() + back_begin_[each],
                    back_edges_.begin() + back_begin_[each + 1]);
    };
    while (!todo.empty()) {
        const Node each = todo.back();
        todo.pop_back();
        if (!is_interval(each)) {
            if (!hub[each - first_.back()]) follow(each);
            hub[each - first_.back()] = true;
            continue;
        }
        const Process p = process_of(each);
        const std::uint32_t interval = each - first_[p] + 1;
        const std::uint32_t before = last[p];
        if (interval > before) last[p] = interval;
        for (std::uint32_t i = before + 1; i <= interval; ++i) follow(node(p, i));
    }
    return last;
}

std::vector<std::uint32_t> Zigzag::reached_from(std::span<const Checkpoint> set) const {
    std::vector<Node> from;
    for (const Checkpoint c : set)
        if (c.number < intervals(c.process)) from.push_back(node(c.process, c.number + 1));
    return reach(from, nullptr);
}

bool Zigzag::zigzag(Checkpoint from, Checkpoint to) const {
    if (from.process == to.process && from.number < to.number) return true;
    const Checkpoint one[] = {from};
    return reached_from(one)[to.process] <= to.number;
}

bool Zigzag::useless(Checkpoint c) const {
    return c.number > 0 && c.number < intervals(c.process) &&
           component_[node(c.process, c.number)] == component_[node(c.process, c.number + 1)];
}

std::vector<Checkpoint> Zigzag::useless() const {
    std::vector<Checkpoint> found;
    for (Process p = 0; p < processes(); ++p)
        for (std::uint32_t x = 1; x < intervals(p); ++x)
            if (useless({p, x})) found.push_back({p, x});
    return found;
}

bool Zigzag::z_cycle_free() const {
    for (Process p = 0; p < processes(); ++p)
        for (std::uint32_t x = 1; x < intervals(p); ++x)
            if (useless({p, x})) return false;
    return true;
}

std::vector<std::uint32_t> Zigzag::path(Checkpoint from, Checkpoint to) const {
    if (from.number >= intervals(from.process) || to.number == 0) return {};
    // Breadth first, with the edge by which each node was found; the way to the next interval costs no
    // message.
    constexpr std::uint32_t by_program = none - 1;
    std::vector<std::uint32_t> by(begin_.size() - 1, none), origin(begin_.size() - 1, none);
    std::vector<Node> level{node(from.process, from.number + 1)}, next;
    by[level[0]] = by_program;
    Node end = none;
    const auto matches = [&](Node each) {
        return is_interval(each) && each >= first_[to.process] && each < first_[to.process] + to.number;
    };
    while (!level.empty() && end == none) {
        for (std::size_t i = 0; i < level.size() && end == none; ++i) {
            const Node at = level[i];
            if (matches(at)) end = at;
            for (std::uint32_t edge = begin_[at]; edge < begin_[at + 1]; ++edge)
                if (by[edges_[edge]] == none) {
                    by[edges_[edge]] = edge;
                    origin[edges_[edge]] = at;
                    next.push_back(edges_[edge]);
                }
            if (!is_interval(at)) continue;
            const Process p = process_of(at);
            if (at + 1 < first_[p + 1] && by[at + 1] == none) {
                by[at + 1] = by_program;
                origin[at + 1] = at;
                level.push_back(at + 1);
            }
        }
        level.swap(next);
        next.clear();
    }
    std::vector<std::uint32_t> messages;
    for (Node at = end; at != none; at = origin[at])
        if (by[at] != by_program && by[at] != none &&
            (messages.empty() || messages.back() != message_[by[at]]))
            messages.push_back(message_[by[at]]);
    std::reverse(messages.begin(), messages.end());
    return messages;
}

bool Zigzag::extends(std::span<const Checkpoint> set) const {
    const std::vector<std::uint32_t> reached = reached_from(set);
    return std::all_of(set.begin(), set.end(), [&](Checkpoint c) { return reached[c.process] > c.number; });
}

std::optional<GlobalCheckpoint> Zigzag::largest(std::span<const Checkpoint> set) const {
    GlobalCheckpoint line = reached_from(set);
    for (const Checkpoint c : set)
        if (line[c.process] <= c.number) return std::nullopt;
    for (Process p = 0; p < processes(); ++p) --line[p];
    for (const Checkpoint c : set) line[c.process] = c.number;
    return line;
}

std::optional<GlobalCheckpoint> Zigzag::smallest(std::span<const Checkpoint> set) const {
    if (!extends(set)) return std::nullopt;
    std::vector<Node> to;
    for (const Checkpoint c : set)
        if (c.number > 0) to.push_back(node(c.process, c.number));
    GlobalCheckpoint line = reach_back(to);
    for (const Checkpoint c : set) line[c.process] = c.number;
    return line;
}

bool Zigzag::consistent(const GlobalCheckpoint& global) const {
    // Orphans are edges from behind the line to before it.
    for (Process p = 0; p < processes(); ++p)
        for (std::uint32_t x = global[p] + 1; x <= intervals(p); ++x)
            for (const Node to : edges(node(p, x))) {
                const auto early = [&](Node end) {
                    const Process q = process_of(end);
                    return end - first_[q] + 1 <= global[q];
                };
                if (is_interval(to)) {
                    if (early(to)) return false;
                    continue;
                }
                for (const Node end : edges(to))
                    if (early(end)) return false;
            }
    return true;
}

std::optional<std::vector<std::uint32_t>> Zigzag::dates() const {
    if (!z_cycle_free()) return std::nullopt;
    const auto nodes = static_cast<Node>(component_.size());
    // In a component there is at most one interval of each process. Going from sources to ends, i.e. from
    // high numbers to low ones, carry the greatest date of a checkpoint behind which an interval of the
    // component, or of one that leads here, begins.
    std::vector<Node> by_component(nodes);
    std::iota(by_component.begin(), by_component.end(), 0U);
    std::sort(by_component.begin(), by_component.end(), [&](Node a, Node b) {
        return component_[a] > component_[b] || (component_[a] == component_[b] && a < b);
    });
    std::vector<std::uint32_t> greatest(nodes, 0), date(first_.back() + processes());
    for (Node i = 0; i < nodes;) {
        Node behind = i;
        std::uint32_t top = 0;
        for (; behind < nodes && component_[by_component[behind]] == component_[by_component[i]]; ++behind) {
            const Node each = by_component[behind];
            top = std::max(top, greatest[component_[each]]);
            if (!is_interval(each)) continue;
            const Process p = process_of(each);
            top = std::max(top, date[each + p]);  // of the checkpoint before this interval
        }
        for (Node k = i; k < behind; ++k) {
            const Node each = by_component[k];
            for (const Node to : edges(each))
                greatest[component_[to]] = std::max(greatest[component_[to]], top);
            if (!is_interval(each)) continue;
            const Process p = process_of(each);
            date[each + p + 1] = top + 1;  // the checkpoint behind it
            if (each + 1 < first_[p + 1])
                greatest[component_[each + 1]] = std::max(greatest[component_[each + 1]], top);
        }
        i = behind;
    }
    return date;
}

GlobalCheckpoint Zigzag::of_date(std::span<const std::uint32_t> dates, std::uint32_t date) const {
    GlobalCheckpoint global(processes());
    for (Process p = 0; p < processes(); ++p)
        while (global[p] < intervals(p) && dates[date_index({p, global[p] + 1})] <= date) ++global[p];
    return global;
}

ZigzagTable::ZigzagTable(const Zigzag& graph) : graph_(graph), n_(graph.processes()) {
    const auto nodes = static_cast<std::uint32_t>(graph.component_.size());
    std::uint32_t count = 0;
    for (const std::uint32_t each : graph.component_) count = std::max(count, each + 1);
    least_.assign(std::size_t{count} * n_, none);
    std::vector<std::uint32_t> by_component(nodes), begin(count + 1);
    for (const std::uint32_t each : graph.component_) ++begin[each + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::uint32_t> at(begin.begin(), begin.end() - 1);
    for (std::uint32_t node = 0; node < nodes; ++node) by_component[at[graph.component_[node]]++] = node;
    // What a component leads to has smaller numbers.
    for (std::uint32_t component = 0; component < count; ++component) {
        std::uint32_t* mine = least_.data() + std::size_t{component} * n_;
        const auto take = [&](std::uint32_t from) {
            if (from == component) return;
            const std::uint32_t* theirs = least_.data() + std::size_t{from} * n_;
            for (std::size_t k = 0; k < n_; ++k) mine[k] = std::min(mine[k], theirs[k]);
        };
        for (std::uint32_t i = begin[component]; i < begin[component + 1]; ++i) {
            const std::uint32_t node = by_component[i];
            for (const std::uint32_t to : graph.edges(node)) take(graph.component_[to]);
            if (!graph.is_interval(node)) continue;
            const Process p = graph.process_of(node);
            mine[p] = std::min(mine[p], node - graph.first_[p] + 1);
            if (node + 1 < graph.first_[p + 1]) take(graph.component_[node + 1]);
        }
    }
}

}  // namespace cairn::causality
