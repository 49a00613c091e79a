#include "causality/pattern.h"

#include <algorithm>
#include <unordered_map>

namespace cairn::causality {

std::uint32_t Pattern::checkpoint(Process process, bool forced) {
    const auto what = static_cast<std::uint32_t>(forced ? What::forced : What::basic);
    steps_.push_back({process << 2 | what, none});
    return intervals_[process]++;
}

void Pattern::send(Process process, std::uint32_t message) {
    steps_.push_back({process << 2 | static_cast<std::uint32_t>(What::send), message});
}

void Pattern::receive(Process process, std::uint32_t message) {
    steps_.push_back({process << 2 | static_cast<std::uint32_t>(What::receive), message});
}

Pattern pattern_of(const Computation& computation, std::vector<Index>* events) {
    Pattern pattern(computation.processes());
    if (events != nullptr) events->clear();
    std::vector<std::uint32_t> message(computation.size(), none);  // of sends
    std::vector<std::uint32_t> operation(computation.groups().size(), none);
    std::vector<bool> sent(computation.groups().size());
    std::unordered_map<Index, Index> ends;  // by a beginning
    for (const auto& [end, beginning] : beginnings_of(computation)) ends[beginning] = end;
    std::vector<bool> has_entered(ends.empty() ? 0 : computation.size());  // by its end
    const auto enters_with_return = [&](Index e) { return has_entered.empty() || !has_entered[e]; };
    std::uint32_t entered = none;
    const auto note = [&](Index e) {
        if (events != nullptr) events->push_back(e);
    };
    for (const Index e : computation.order()) {
        const Event& event = computation.event(e);
        const Process p = computation.process_of(e);
        if (event.kind == Kind::checkpoint) {
            pattern.checkpoint(p, event.has(Flag::forced));
            note(e);
        } else if (event.kind == Kind::send) {
            message[e] = pattern.send(p);
            note(e);
        } else if (event.kind == Kind::receive) {
            pattern.receive(p, message[computation.partner(e)]);
            note(e);
        } else if (const auto end = ends.find(e); end != ends.end()) {
            const Event& operates = computation.event(end->second);
            const std::uint32_t number = computation.group_number(end->second);
            const bool all = operates.shape == Shape::all;
            if (all ? !computation.groups()[number].whole
                    : (operates.shape == Shape::from_root) != (operates.peer == p))
                continue;
            if (operation[number] == none) operation[number] = pattern.message();
            pattern.send(p, operation[number]);
            sent[number] = has_entered[end->second] = true;
            note(e);
        } else if (event.kind == Kind::collective) {
            const std::uint32_t number = computation.group_number(e);
            const Group& group = computation.groups()[number];
            if (operation[number] == none) operation[number] = pattern.message();
            if (event.shape == Shape::all) {
                // All enter, then all return: the members come in one piece if they are all there.
                if (!group.whole) continue;
                if (entered != number)
                    for (const Index member : group.members) {
                        if (!enters_with_return(member)) continue;
                        pattern.send(computation.process_of(member), operation[number]);
                        note(member);
                    }
                entered = number;
                pattern.receive(p, operation[number]);
            } else if ((event.shape == Shape::from_root) == (event.peer == p)) {
                if (!enters_with_return(e)) continue;
                pattern.send(p, operation[number]);
                sent[number] = true;
            } else if (sent[number]) {
                pattern.receive(p, operation[number]);
            } else {
                continue;  // a root of an operation that nobody else entered before the trace ends
            }
            note(e);
        }
    }
    return pattern;
}

DependenceVectors::DependenceVectors(const Pattern& pattern) : n_(pattern.processes()) {
    const Process n = pattern.processes();
    std::uint32_t count = 0;
    for (Process p = 0; p < n; ++p) {
        first_.push_back(count);
        count += pattern.checkpoints(p);
    }
    vectors_.resize(std::size_t{count} * n_);
    std::vector<std::vector<std::uint32_t>> now(n, std::vector<std::uint32_t>(n));
    std::vector<std::uint32_t> taken(n);
    const auto take_checkpoint = [&](Process p) {
        std::copy(now[p].begin(), now[p].end(),
                  vectors_.begin() + static_cast<std::ptrdiff_t>((std::size_t{first_[p]} + taken[p]) * n_));
        ++taken[p];
        ++now[p][p];
    };
    for (Process p = 0; p < n; ++p) take_checkpoint(p);
    // A vector for each message in transit, given back when it can't be received again.
    std::vector<std::uint32_t> slot(pattern.messages(), none), receives(pattern.messages());
    for (const Pattern::Step& step : pattern.steps())
        if (step.what() == Pattern::What::receive) ++receives[step.message];
    std::vector<std::vector<std::uint32_t>> carried;
    std::vector<std::uint32_t> unused;
    for (const Pattern::Step& step : pattern.steps()) {
        const Process p = step.process();
        if (step.what() == Pattern::What::send) {
            if (receives[step.message] == 0) continue;
            std::uint32_t& mine = slot[step.message];
            if (mine == none) {
                if (unused.empty()) {
                    unused.push_back(static_cast<std::uint32_t>(carried.size()));
                    carried.emplace_back(n);
                }
                mine = unused.back();
                unused.pop_back();
                std::fill(carried[mine].begin(), carried[mine].end(), 0);
            }
            for (Process k = 0; k < n; ++k) carried[mine][k] = std::max(carried[mine][k], now[p][k]);
        } else if (step.what() == Pattern::What::receive) {
            const auto& from = carried[slot[step.message]];
            for (Process k = 0; k < n; ++k) now[p][k] = std::max(now[p][k], from[k]);
            if (--receives[step.message] == 0) unused.push_back(slot[step.message]);
        } else {
            take_checkpoint(p);
        }
    }
    for (Process p = 0; p < n; ++p) take_checkpoint(p);
}

std::optional<std::pair<Checkpoint, Checkpoint>> hidden_dependency(const Pattern& pattern,
                                                                   const Zigzag& graph) {
    const ZigzagTable table(graph);
    const DependenceVectors vectors(pattern);
    for (Process i = 0; i < pattern.processes(); ++i)
        for (std::uint32_t x = 0; x < pattern.intervals(i); ++x)
            for (Process j = 0; j < pattern.processes(); ++j) {
                // Later checkpoints of j depend causally on whatever the first one does.
                const std::uint32_t y = table.least({i, x}, j);
                if (y == none) continue;
                const Checkpoint from{i, x}, to{j, y};
                if (!vectors.precedes(from, to)) return std::pair(from, to);
            }
    return std::nullopt;
}

bool trackable(const Pattern& pattern, const Zigzag& graph) {
    return !hidden_dependency(pattern, graph);
}

}  // namespace cairn::causality
