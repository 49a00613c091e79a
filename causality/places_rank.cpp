// Which of the places, of which there may be exponentially many, a user wants.
#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "causality/places.h"

namespace cairn::causality {
namespace {

// Least and greatest of n numbers that change one at a time.
class Extremes {
  public:
    Extremes(std::size_t n, std::int64_t value) : leaves_(std::bit_ceil(std::max<std::size_t>(n, 1))) {
        constexpr auto limits = std::numeric_limits<std::int64_t>();
        least_.assign(2 * leaves_, limits.max());
        most_.assign(2 * leaves_, limits.min());
        for (std::size_t i = 0; i < n; ++i) set(i, value);
    }
    void set(std::size_t i, std::int64_t value) {
        i += leaves_;
        least_[i] = most_[i] = value;
        for (i /= 2; i > 0; i /= 2) {
            least_[i] = std::min(least_[2 * i], least_[2 * i + 1]);
            most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
        }
    }
    [[nodiscard]] std::int64_t least() const { return least_[1]; }
    [[nodiscard]] std::int64_t most() const { return most_[1]; }

  private:
    std::size_t leaves_;
    std::vector<std::int64_t> least_, most_;
};

std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

}  // namespace

// For each node the number of its strongly connected component; what a component requires has smaller numbers
// (Tarjan).
std::vector<std::uint32_t> Places::topological() const {
    struct Call {
        std::uint32_t node;
        Index next;  // in members_
    };
    std::vector<std::uint32_t> component(nodes_, none), seen(nodes_, 0), low(nodes_, 0), stack;
    std::vector<Call> calls;
    std::uint32_t count = 0, clock = 0;
    std::vector<bool> first_of_process(node_.size());
    for (Process p = 0; p < computation_.processes(); ++p)
        if (computation_.size(p) > 0) first_of_process[computation_.first(p)] = true;
    for (std::uint32_t begin = 0; begin < nodes_; ++begin) {
        if (seen[begin] != 0) continue;
        calls.push_back({begin, begin_[begin]});
        seen[begin] = low[begin] = ++clock;
        stack.push_back(begin);
        while (!calls.empty()) {
            const std::uint32_t node = calls.back().node;
            if (calls.back().next < begin_[node + 1]) {
                const Index e = members_[calls.back().next++];
                if (first_of_process[e]) continue;
                const std::uint32_t required = node_[e - 1];
                if (seen[required] == 0) {
                    seen[required] = low[required] = ++clock;
                    stack.push_back(required);
                    calls.push_back({required, begin_[required]});
                } else if (component[required] == none) {
                    low[node] = std::min(low[node], seen[required]);
                }
                continue;
            }
            calls.pop_back();
            if (!calls.empty()) low[calls.back().node] = std::min(low[calls.back().node], low[node]);
            if (low[node] != seen[node]) continue;
            for (;;) {
                const std::uint32_t member = stack.back();
                stack.pop_back();
                component[member] = count;
                if (member == node) break;
            }
            ++count;
        }
    }
    return component;
}

namespace {

// A place of the chain, by how much of it has happened.
struct PlaceChoice {
    std::size_t upto = 0;
    std::int64_t wait = 0, off = 0;
};

// In the order of the chain.
std::vector<PlaceChoice> shortest_waits(const std::map<std::int64_t, PlaceChoice>& windows,
                                        std::size_t most) {
    std::vector<PlaceChoice> chosen;
    for (const auto& [window, choice] : windows) chosen.push_back(choice);
    if (chosen.size() <= most) return chosen;
    std::sort(chosen.begin(), chosen.end(),
              [](auto& a, auto& b) { return a.wait < b.wait || (a.wait == b.wait && a.upto < b.upto); });
    chosen.resize(most);
    std::sort(chosen.begin(), chosen.end(), [](auto& a, auto& b) { return a.upto < b.upto; });
    return chosen;
}

}  // namespace

// The largest place of which every event has happened at time t, for all t: a chain. Any place C with the
// last arrival at t is part of the chain's place D at t; in D nobody arrives earlier than in C and nobody
// later than t. So D's wait is not longer: the shortest waits are on the chain.
std::vector<Places::Timed> Places::best(std::size_t most, std::int64_t interval) const {
    const auto least = first(), greatest = last();
    if (!least || !greatest || most == 0) return {};
    const std::vector<std::uint32_t> component = topological();
    const std::uint32_t components =
        component.empty() ? 0 : *std::max_element(component.begin(), component.end()) + 1;
    constexpr auto limits = std::numeric_limits<std::int64_t>();
    // When all that a component requires has happened. In the order of numbers: what is required comes first.
    std::vector<std::int64_t> ready(components, limits.min());
    std::vector<Index> by_component(node_.size()), begin(components + 1);
    for (const std::uint32_t node : node_) ++begin[component[node] + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<Index> at(begin.begin(), begin.end() - 1);
    for (Index e = 0; e < node_.size(); ++e) by_component[at[component[node_[e]]]++] = e;
    std::vector<std::uint32_t> order;
    for (std::uint32_t each = 0; each < components; ++each) {
        bool inside = begin[each] != begin[each + 1], given = false;
        for (Index i = begin[each]; i < begin[each + 1]; ++i) {
            const EventId id = computation_.id(by_component[i]);
            given = given || id.position < (*least)[id.process];
            inside = inside && id.position < (*greatest)[id.process];
            ready[each] = std::max(ready[each], computation_.event(by_component[i]).time);
            if (id.position > 0)
                ready[each] = std::max(ready[each], ready[component[node_[by_component[i] - 1]]]);
        }
        if (given) ready[each] = limits.min();
        if (inside && !given) order.push_back(each);
    }
    std::sort(order.begin(), order.end(),
              [&](auto a, auto b) { return ready[a] < ready[b] || (ready[a] == ready[b] && a < b); });
    if (order.empty()) return {};

    const auto n = computation_.processes();
    const auto sweep = [&](const auto& visit) {
        Cut cut = *least;
        Extremes arrivals(n, begun_);
        for (Process p = 0; p < n; ++p) arrivals.set(p, arrival(p, cut[p]));
        for (std::size_t i = 0; i < order.size(); ++i) {
            for (Index k = begin[order[i]]; k < begin[order[i] + 1]; ++k) {
                const EventId id = computation_.id(by_component[k]);
                if (id.position < cut[id.process]) continue;
                cut[id.process] = id.position + 1;
                arrivals.set(id.process, arrival(id.process, cut[id.process]));
            }
            if (i + 1 < order.size() && ready[order[i + 1]] == ready[order[i]]) continue;
            visit(i, cut, arrivals);
        }
    };
    const std::int64_t span = ready[order.back()] - begun_;
    const std::int64_t step =
        interval > 0 ? interval : std::max<std::int64_t>(span / static_cast<std::int64_t>(most + 1), 1);
    std::map<std::int64_t, PlaceChoice> windows;
    sweep([&](std::size_t i, const Cut& cut, const Extremes& arrivals) {
        if (cut == *greatest && i + 1 == order.size()) return;  // everything that can be before it is
        const std::int64_t time = arrivals.most() - begun_;
        const std::int64_t window = (time + step / 2) / step;
        if (window < 1) return;
        const PlaceChoice mine{i, arrivals.most() - arrivals.least(), std::abs(time - window * step)};
        const auto [slot, is_new] = windows.try_emplace(window, mine);
        if (!is_new && std::pair(mine.wait, mine.off) < std::pair(slot->second.wait, slot->second.off))
            slot->second = mine;
    });
    const auto chosen = shortest_waits(windows, most);
    std::vector<Timed> found;
    sweep([&](std::size_t i, const Cut& cut, const Extremes& arrivals) {
        if (found.size() == chosen.size() || chosen[found.size()].upto != i) return;
        found.push_back({cut, arrivals.most(), arrivals.most() - arrivals.least(),
                         std::accumulate(cut.begin(), cut.end(), std::uint64_t{0})});
    });
    return found;
}

std::vector<Places::Line> Places::lines() const {
    const Process n = computation_.processes();
    if (!first()) return {};
    // sums[e]: over the events of the process up to e. Those of one node add up to 0; those that must be
    // before, to `target`; what may never be before, to something else.
    std::vector<std::uint64_t> value(node_.size()), sums(node_.size());
    std::uint64_t target = 0;
    for (std::uint32_t node = 0; node < nodes_; ++node) {
        std::uint64_t sum = 0;
        for (const Index e : members(node))
            sum += value[e] = node > end && members(node).size() == 1 ? 0 : mix(e);
        if (node == start) target = sum;
        if (node > end) value[members(node)[0]] -= sum;
    }
    for (Process p = 0; p < n; ++p) {
        std::uint64_t sum = 0;
        for (Index e = computation_.first(p); e < computation_.first(p + 1); ++e) sums[e] = sum += value[e];
    }
    const auto sum_before = [&](Process p, Position cut) {
        return cut == 0 ? 0 : sums[computation_.first(p) + cut - 1];
    };

    // Events by place, process and position: one for each call.
    std::vector<Index> begin(computation_.places().size() + 1), calls(node_.size());
    const auto is_call = [&](Index e) { return !computation_.event(e).has(Flag::joined); };
    for (Index e = 0; e < node_.size(); ++e) begin[computation_.event(e).place + 1] += is_call(e) ? 1U : 0U;
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<Index> at(begin.begin(), begin.end() - 1);
    for (Index e = 0; e < node_.size(); ++e)
        if (is_call(e)) calls[at[computation_.event(e).place]++] = e;

    std::vector<Line> lines;
    for (std::uint32_t place = 1; place + 1 < begin.size(); ++place) {
        std::vector<Index> process_begin(n + 1, begin[place + 1]);
        for (Index i = begin[place + 1]; i-- > begin[place];)
            process_begin[computation_.process_of(calls[i])] = i;
        for (Process p = n; p-- > 0;) process_begin[p] = std::min(process_begin[p], process_begin[p + 1]);
        std::uint32_t passes = none;
        for (Process p = 0; p < n; ++p) passes = std::min(passes, process_begin[p + 1] - process_begin[p]);
        if (passes == 0) continue;
        for (const bool after : {false, true}) {
            Line line{.place = place, .after = after, .passes = passes, .cut = {}};
            std::int64_t waits = 0;
            Cut cut(n);
            for (std::uint32_t pass = 0; pass < passes; ++pass) {
                std::uint64_t sum = 0;
                std::int64_t least = std::numeric_limits<std::int64_t>::max();
                std::int64_t greatest = std::numeric_limits<std::int64_t>::min();
                for (Process p = 0; p < n; ++p) {
                    Position position = calls[process_begin[p] + pass] - computation_.first(p);
                    if (after) {
                        ++position;
                        while (position < computation_.size(p) && !is_call(computation_.first(p) + position))
                            ++position;
                    }
                    cut[p] = position;
                    sum += sum_before(p, position);
                    least = std::min(least, arrival(p, position));
                    greatest = std::max(greatest, arrival(p, position));
                }
                if (sum != target) continue;
                if (line.good++ == 0) {
                    line.first_good = pass;
                    line.cut = cut;
                }
                waits += greatest - least;
            }
            if (line.good == 0) continue;
            line.mean_wait = waits / static_cast<std::int64_t>(line.good);
            lines.push_back(std::move(line));
        }
    }
    std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
        const bool a_always = a.good == a.passes, b_always = b.good == b.passes;
        if (a_always != b_always) return a_always;
        return std::tie(a.mean_wait, a.place, a.after) < std::tie(b.mean_wait, b.place, b.after);
    });
    return lines;
}

}  // namespace cairn::causality
