#include "restart/pages/order.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace cairn::restart::pages {
namespace {

using Order = std::vector<std::size_t>;

constexpr std::size_t most_in_question = 7;  // 5040 orders

bool within(std::uint64_t address, std::uint64_t start, std::uint64_t length) {
    return start <= address && address - start < length;
}

bool overlap(std::uint64_t a, std::uint64_t a_length, std::uint64_t b, std::uint64_t b_length) {
    return a < b + b_length && b < a + a_length;
}

// Both change what is registered, and the order of the two matters.
bool in_conflict(const Event& a, const Event& b) {
    if (a.space != b.space || a.kind == Change::remove || b.kind == Change::remove) return false;
    if (a.kind == Change::fork || b.kind == Change::fork) return true;
    const auto touches = [](const Event& x, const Event& y) {
        return overlap(x.from, x.length, y.from, y.length) ||
               (y.kind == Change::remap && overlap(x.from, x.length, y.to, y.length));
    };
    return touches(a, b) || touches(b, a) ||
           (a.kind == Change::remap && b.kind == Change::remap && overlap(a.to, a.length, b.to, b.length));
}

class Solver {
  public:
    Solver(const Spaces& before, std::span<const Event> batch, const Registered& registered)
        : before_(before), batch_(batch), registered_(registered) {
        find_companions();
        for (std::size_t i = 0; i < batch_.size(); ++i)
            if (batch_[i].kind != Change::remove && !is_companion_[i]) movable_.push_back(i);
    }

    std::optional<Order> solve() {
        // each group keeps the places in the order that its events have by arrival
        std::map<std::size_t, std::size_t> at_place;
        for (const auto& group : groups()) {
            const auto order = group.size() == 1 ? std::optional(group) : solve(group);
            if (!order) return std::nullopt;
            for (std::size_t i = 0; i < group.size(); ++i) at_place[group[i]] = (*order)[i];
        }
        Order all;
        for (const auto& [place, index] : at_place) all.push_back(index);
        return complete(all);
    }

  private:
    struct Fact {
        SpaceId space;
        std::uint64_t address;
        bool registered;
    };

    // mremap() without MREMAP_DONTUNMAP tells of the move first, then, when that has been read, that the old
    // place is unmapped. The two are one.
    void find_companions() {
        is_companion_.resize(batch_.size());
        leaves_.resize(batch_.size());
        for (std::size_t i = 0; i < batch_.size(); ++i) {
            if (batch_[i].kind != Change::remap) continue;
            for (auto k = i + 1; k < batch_.size(); ++k) {
                const auto& other = batch_[k];
                if (is_companion_[k] || other.kind != Change::unmap || other.space != batch_[i].space ||
                    other.from != batch_[i].from || other.length != batch_[i].length)
                    continue;
                is_companion_[k] = leaves_[i] = true;
                break;
            }
        }
    }

    // Events whose order matters to each other, by arrival. Of different groups none touches another's
    // addresses.
    [[nodiscard]] std::vector<Order> groups() const {
        std::vector<Order> result;
        for (const auto i : movable_) {
            Order joined;
            std::erase_if(result, [&](const Order& group) {
                const bool joins =
                    std::ranges::any_of(group, [&](std::size_t k) { return tied(batch_[i], batch_[k]); });
                if (joins) joined.insert(joined.end(), group.begin(), group.end());
                return joins;
            });
            joined.push_back(i);
            std::ranges::sort(joined);
            result.push_back(std::move(joined));
        }
        return result;
    }

    static bool tied(const Event& a, const Event& b) {
        return in_conflict(a, b) || (a.kind == Change::fork && a.child == b.space) ||
               (b.kind == Change::fork && b.child == a.space);
    }

    [[nodiscard]] std::optional<Order> solve(const Order& group) const {
        if (group.size() > most_in_question) return std::nullopt;
        const auto facts = ask(group);
        // A mapping that grows in its place, where something has been unmapped, is told by nobody.
        for (const bool strict : {true, false}) {
            std::optional<Order> found;
            Spaces outcome;
            Order order = group;
            do {
                if (!possible(order, facts) || !agrees(order, facts, strict)) continue;
                auto result = run(order);
                if (found && result != outcome) return std::nullopt;
                if (found) continue;
                found = order;
                outcome = std::move(result);
            } while (std::ranges::next_permutation(order).found);
            if (found) return found;
        }
        return std::nullopt;
    }

    // A removal happens after everything that was read before it: it waits for its own event to be read.
    [[nodiscard]] Order complete(const Order& order) const {
        Order all = order;
        for (std::size_t i = 0; i < batch_.size(); ++i) {
            if (batch_[i].kind != Change::remove) continue;
            auto place = all.begin();
            for (auto at = all.begin(); at != all.end(); ++at)
                if (*at < i) place = at + 1;
            all.insert(place, i);
        }
        return all;
    }

    [[nodiscard]] std::vector<Fact> ask(const Order& group) const {
        std::set<std::uint64_t> edges;
        std::set<SpaceId> spaces;
        for (const auto i : group) {
            const auto& event = batch_[i];
            spaces.insert(event.space);
            if (event.kind == Change::fork) {
                spaces.insert(event.child);
                continue;
            }
            edges.insert({event.from, event.from + event.length});
            if (event.kind == Change::remap) edges.insert({event.to, event.to + event.length});
        }
        std::vector<Fact> facts;
        for (const auto space : spaces) {
            std::set<std::uint64_t> addresses = edges;
            if (const auto known = before_.find(space); known != before_.end())
                for (auto edge = edges.begin(); edge != edges.end() && std::next(edge) != edges.end(); ++edge)
                    if (const auto piece = known->second.pieces().lower_bound(*edge);
                        piece != known->second.pieces().end() && piece->first < *std::next(edge))
                        addresses.insert(piece->first);
            for (const auto address : addresses)
                if (!changed_by_others(group, space, address))
                    facts.push_back({space, address, registered_(space, address)});
        }
        return facts;
    }

    // An edge of this group can lie in what another one has changed: what is registered there now says
    // nothing.
    [[nodiscard]] bool changed_by_others(const Order& group, SpaceId space, std::uint64_t address) const {
        return std::ranges::any_of(movable_, [&](std::size_t i) {
            const auto& event = batch_[i];
            if (event.space != space || event.kind == Change::fork) return false;
            if (std::ranges::find(group, i) != group.end()) return false;
            if (within(address, event.from, event.length)) return true;
            if (event.kind != Change::remap || address < event.to) return false;
            // or what has moved there has grown up to it, and further
            const auto end = event.to + event.length;
            return address < end || (registered_(space, address) && without_gap(space, end, address));
        });
    }

    // A child does nothing before it is born; nothing moves to where something still is.
    [[nodiscard]] bool possible(const Order& order, const std::vector<Fact>& facts) const {
        for (std::size_t at = 0; at < order.size(); ++at) {
            const auto& event = batch_[order[at]];
            if (event.kind == Change::fork)
                for (std::size_t earlier = 0; earlier < at; ++earlier)
                    if (batch_[order[earlier]].space == event.child) return false;
            if (event.kind != Change::remap) continue;
            for (const auto& fact : facts)
                if (fact.space == event.space && within(fact.address, event.to, event.length) &&
                    predict(order, at, fact.space, fact.address) == true)
                    return false;
        }
        return true;
    }

    // A move tells of the length before; the mapping may have become longer, up to what lies behind it. What
    // is not registered there, or is missing, is not of what has grown. `outcome`: of this order.
    [[nodiscard]] bool may_have_grown(const Order& order, const Fact& fact, const std::vector<Fact>& facts,
                                      const Spaces& outcome) const {
        const auto space = outcome.find(fact.space);
        const auto reaches = [&](std::uint64_t from) {
            if (space != outcome.end()) {
                const auto next = space->second.pieces().lower_bound(from);
                if (space->second.find(from) ||
                    (next != space->second.pieces().end() && next->first < fact.address))
                    return false;
            }
            const bool agree = std::ranges::all_of(facts, [&](const Fact& between) {
                return between.registered || between.space != fact.space ||
                       !within(between.address, from, fact.address - from);
            });
            return agree && without_gap(fact.space, from, fact.address);
        };
        for (auto at = order.size(); at-- > 0;) {
            const auto& event = batch_[order[at]];
            if (event.space != fact.space || event.kind == Change::fork) continue;
            if (event.kind == Change::remap && event.to + event.length <= fact.address &&
                reaches(event.to + event.length))
                return true;
            if (within(fact.address, event.from, event.length)) return false;
        }
        return false;
    }

    // Whether everything in between is registered, as far as some pages tell.
    [[nodiscard]] bool without_gap(SpaceId space, std::uint64_t from, std::uint64_t to) const {
        constexpr std::uint64_t page = 4096, samples = 16;
        const auto [known, is_new] = gaps_.try_emplace({space, from, to}, true);
        if (!is_new) return known->second;
        const std::uint64_t step = std::max<std::uint64_t>((to - from) / page / samples, 1) * page;
        if (from == to) return true;
        for (std::uint64_t at = from; at < to && known->second; at += step)
            known->second = registered_(space, at);
        known->second = known->second && registered_(space, to - page);
        return known->second;
    }

    // What would be registered if the first `count` events had happened in this order. None: nothing says,
    // and nothing was missing there.
    [[nodiscard]] std::optional<bool> predict(const Order& order, std::size_t count, SpaceId space,
                                              std::uint64_t address) const {
        for (auto at = count; at-- > 0;) {
            const auto& event = batch_[order[at]];
            if (event.kind == Change::fork && event.child == space)
                return predict(order, at, event.space, address);
            if (event.space != space) continue;
            if (event.kind == Change::unmap && within(address, event.from, event.length)) return false;
            if (event.kind != Change::remap) continue;
            if (within(address, event.to, event.length)) return true;
            if (leaves_[order[at]] && within(address, event.from, event.length)) return false;
        }
        const auto known = before_.find(space);
        if (known != before_.end() && known->second.find(address)) return true;
        return std::nullopt;
    }

    [[nodiscard]] bool agrees(const Order& order, const std::vector<Fact>& facts, bool strict) const {
        std::optional<Spaces> outcome;
        return std::ranges::all_of(facts, [&](const Fact& fact) {
            const auto expected = predict(order, order.size(), fact.space, fact.address);
            if (!expected || *expected == fact.registered) return true;
            if (!fact.registered || !strict) return fact.registered;
            if (!outcome) outcome = run(order);
            return may_have_grown(order, fact, facts, *outcome);
        });
    }

    [[nodiscard]] Spaces run(const Order& order) const {
        Spaces spaces = before_;
        for (const auto i : order) apply(batch_[i], spaces);
        return spaces;
    }

    const Spaces& before_;
    std::span<const Event> batch_;
    const Registered& registered_;
    std::vector<bool> is_companion_, leaves_;
    Order movable_;
    mutable std::map<std::tuple<SpaceId, std::uint64_t, std::uint64_t>, bool> gaps_;
};

}  // namespace

void apply(const Event& event, Spaces& spaces) {
    const auto found = spaces.find(event.space);
    if (found == spaces.end()) return;
    auto& missing = found->second;
    switch (event.kind) {
        case Change::fork:
            spaces[event.child] = Missing(missing);
            return;
        case Change::remap:
            return missing.move(event.from, event.to, event.length);
        case Change::remove:
        case Change::unmap:
            return missing.erase(event.from, event.from + event.length);
        case Change::closed:
            spaces.erase(found);
            return;
    }
}

std::optional<std::vector<std::size_t>> settle_order(const Spaces& before, std::span<const Event> batch,
                                                     const Registered& registered) {
    return Solver(before, batch, registered).solve();
}

}  // namespace cairn::restart::pages
