#include "restart/pages/order.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace cairn::restart::pages {
namespace {

using Order = std::vector<std::size_t>;

constexpr std::size_t most_in_question = 6;  // 720 orders

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
    Solver(const Spaces& before, std::span<const Event> batch) : before_(before), batch_(batch) {
        find_companions();
        for (std::size_t i = 0; i < batch_.size(); ++i)
            if (batch_[i].kind != Change::remove && !is_companion_[i]) movable_.push_back(i);
    }

    std::optional<Order> solve(const Registered& registered) {
        if (!any_conflict()) return complete(movable_);
        if (movable_.size() > most_in_question) return std::nullopt;
        const auto facts = ask(registered);
        std::optional<Order> found;
        Spaces outcome;
        Order order = movable_;
        do {
            if (!possible(order) || !agrees(order, facts)) continue;
            auto result = run(order);
            if (found && result != outcome) return std::nullopt;
            if (found) continue;
            found = complete(order);
            outcome = std::move(result);
        } while (std::ranges::next_permutation(order).found);
        return found;
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

    [[nodiscard]] bool any_conflict() const {
        for (std::size_t a = 0; a < movable_.size(); ++a)
            for (std::size_t b = a + 1; b < movable_.size(); ++b)
                if (in_conflict(batch_[movable_[a]], batch_[movable_[b]])) return true;
        return false;
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

    [[nodiscard]] std::vector<Fact> ask(const Registered& registered) const {
        std::set<std::uint64_t> edges;
        std::set<SpaceId> spaces;
        for (const auto i : movable_) {
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
                facts.push_back({space, address, registered(space, address)});
        }
        return facts;
    }

    // A child does nothing before it is born.
    [[nodiscard]] bool possible(const Order& order) const {
        for (std::size_t at = 0; at < order.size(); ++at) {
            if (batch_[order[at]].kind != Change::fork) continue;
            for (std::size_t earlier = 0; earlier < at; ++earlier)
                if (batch_[order[earlier]].space == batch_[order[at]].child) return false;
        }
        return true;
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

    [[nodiscard]] bool agrees(const Order& order, const std::vector<Fact>& facts) const {
        return std::ranges::all_of(facts, [&](const Fact& fact) {
            const auto expected = predict(order, order.size(), fact.space, fact.address);
            return !expected || *expected == fact.registered;
        });
    }

    [[nodiscard]] Spaces run(const Order& order) const {
        Spaces spaces = before_;
        for (const auto i : order) apply(batch_[i], spaces);
        return spaces;
    }

    const Spaces& before_;
    std::span<const Event> batch_;
    std::vector<bool> is_companion_, leaves_;
    Order movable_;
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
    return Solver(before, batch).solve(registered);
}

}  // namespace cairn::restart::pages
