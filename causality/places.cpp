#include "causality/places.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace cairn::causality {

// Union-find over the events, with two more nodes in front: start and end.
std::uint32_t Places::root(std::uint32_t node) {
    while (node_[node] != node) node = node_[node] = node_[node_[node]];
    return node;
}

void Places::join_nodes(std::uint32_t a, std::uint32_t b) {
    a = root(a);
    b = root(b);
    // Smaller numbers lead, so that start and end keep theirs; should they meet, there is no place at all.
    node_[std::max(a, b)] = std::min(a, b);
}

void Places::contract() {
    const Computation& c = computation_;
    node_.resize(std::size_t{c.size()} + 2);
    std::iota(node_.begin(), node_.end(), 0U);
    const auto node = [](Index event) { return event + 2; };
    for (const Group& group : c.groups()) {
        for (const Index member : group.members) join_nodes(node(group.members[0]), node(member));
        // Never complete: it may not have begun.
        if (!group.whole && !group.members.empty()) join_nodes(node(group.members[0]), end);
    }
    std::map<std::uint32_t, Position> open;
    for (Process p = 0; p < c.processes(); ++p) {
        const Index first = c.first(p);
        // How many requests are open behind each event, as differences.
        std::vector<std::int32_t> opened(c.size(p) + 1);
        open.clear();
        for (Position at = 0; at < c.size(p); ++at) {
            const Index e = first + at;
            const Event& event = c.event(e);
            if (event.kind == Kind::send)
                join_nodes(node(e), c.partner(e) == none ? end : node(c.partner(e)));
            if (event.has(Flag::joined) && at > 0) join_nodes(node(e), node(e - 1));
            if (event.has(Flag::nondeterministic)) {
                join_nodes(node(e), at == 0 ? start : node(e - 1));
                join_nodes(node(e), at + 1 == c.size(p) ? end : node(e + 1));
            }
            if (event.opens()) open[event.request] = at;
            if (!event.closes()) continue;
            const auto found = open.find(event.request);
            if (found == open.end()) continue;
            ++opened[found->second];
            --opened[at];
            open.erase(found);
        }
        for (const auto& [request, at] : open) join_nodes(node(first + at), end);
        std::int32_t depth = 0;
        for (Position at = 0; at + 1 < c.size(p); ++at) {
            depth += opened[at];
            if (depth > 0) join_nodes(node(first + at), node(first + at + 1));
        }
    }
}

Places::Places(const Computation& computation) : computation_(computation) {
    contract();
    impossible_ = root(end) == start;
    // Numbers without gaps: start 0, end 1, then the others in the order of the events.
    std::vector<std::uint32_t> number(node_.size(), none), numbered(computation.size());
    number[start] = start;
    number[end] = end;
    for (Index e = 0; e < computation.size(); ++e) {
        std::uint32_t& mine = number[root(e + 2)];
        if (mine == none) mine = nodes_++;
        numbered[e] = mine;
    }
    node_ = std::move(numbered);
    begin_.assign(nodes_ + 1, 0);
    for (const std::uint32_t node : node_) ++begin_[node + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    members_.resize(node_.size());
    std::vector<Index> at(begin_.begin(), begin_.end() - 1);
    for (Index e = 0; e < computation.size(); ++e) members_[at[node_[e]]++] = e;

    std::int64_t earliest = INT64_MAX;
    for (Process p = 0; p < computation.processes(); ++p)
        if (computation.size(p) > 0)
            earliest = std::min(earliest, computation.event(computation.first(p)).time);
    begun_ = earliest == INT64_MAX ? 0 : earliest;
}

// The smallest place that holds `cut` and all that is wanted: with an event its node, and what its process
// did before.
std::optional<Cut> Places::grow(Cut cut, std::vector<Index> wanted) const {
    std::vector<bool> seen(nodes_);
    wanted.insert(wanted.end(), members(start).begin(), members(start).end());
    while (!wanted.empty()) {
        const EventId at = computation_.id(wanted.back());
        wanted.pop_back();
        for (Position& have = cut[at.process]; have <= at.position; ++have) {
            const std::uint32_t node = node_[computation_.first(at.process) + have];
            if (node == end) return std::nullopt;
            if (seen[node]) continue;
            seen[node] = true;
            wanted.insert(wanted.end(), members(node).begin(), members(node).end());
        }
    }
    return cut;
}

// The largest place within `cut` without what is unwanted.
std::optional<Cut> Places::shrink(Cut cut, std::vector<Index> unwanted) const {
    std::vector<bool> seen(nodes_);
    unwanted.insert(unwanted.end(), members(end).begin(), members(end).end());
    while (!unwanted.empty()) {
        const EventId at = computation_.id(unwanted.back());
        unwanted.pop_back();
        for (Position& have = cut[at.process]; have > at.position; --have) {
            const std::uint32_t node = node_[computation_.first(at.process) + have - 1];
            if (node == start) return std::nullopt;
            if (seen[node]) continue;
            seen[node] = true;
            unwanted.insert(unwanted.end(), members(node).begin(), members(node).end());
        }
    }
    return cut;
}

std::optional<Cut> Places::earliest_after(Index event) const {
    if (impossible_) return std::nullopt;
    return grow(Cut(computation_.processes()), {event});
}

std::optional<Cut> Places::first() const {
    if (impossible_) return std::nullopt;
    return grow(Cut(computation_.processes()), {});
}

std::optional<Cut> Places::latest_before(Index event) const {
    if (impossible_ || !first()) return std::nullopt;
    Cut everything(computation_.processes());
    for (Process p = 0; p < everything.size(); ++p) everything[p] = computation_.size(p);
    std::vector<Index> unwanted;
    if (event != none) unwanted.push_back(event);
    return shrink(std::move(everything), std::move(unwanted));
}

std::optional<Cut> Places::last() const {
    return latest_before(none);
}

std::optional<Places::Obstacle> Places::obstacle(const Cut& cut) const {
    for (std::uint32_t node = 0; node < nodes_; ++node) {
        Obstacle found;
        for (const Index e : members(node)) {
            const EventId at = computation_.id(e);
            (at.position < cut[at.process] ? found.before : found.behind) = e;
        }
        const bool split = found.before != none && found.behind != none;
        if (split || (node == start && found.behind != none) || (node == end && found.before != none))
            return found;
    }
    return std::nullopt;
}

bool Places::is_place(const Cut& cut) const {
    return !impossible_ && !obstacle(cut);
}

void Places::for_each(const std::function<bool(const Cut&)>& visit) const {
    const auto least = first();
    if (!least) return;
    // By size, so that each is met once: what follows from one place is larger.
    std::map<std::uint64_t, std::set<Cut>> waiting;
    const auto size = [](const Cut& cut) {
        return std::accumulate(cut.begin(), cut.end(), std::uint64_t{0});
    };
    waiting[size(*least)].insert(*least);
    while (!waiting.empty()) {
        const std::set<Cut> level = std::move(waiting.begin()->second);
        waiting.erase(waiting.begin());
        for (const Cut& cut : level) {
            if (!visit(cut)) return;
            for (Process p = 0; p < cut.size(); ++p) {
                if (cut[p] == computation_.size(p)) continue;
                if (auto larger = grow(cut, {computation_.first(p) + cut[p]})) {
                    const std::uint64_t events = size(*larger);
                    waiting[events].insert(std::move(*larger));
                }
            }
        }
    }
}

std::int64_t Places::arrival(Process process, Position cut) const {
    return cut == 0 ? begun_ : computation_.event(computation_.first(process) + cut - 1).time;
}

}  // namespace cairn::causality
