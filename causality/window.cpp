#include "causality/window.h"

#include <algorithm>
#include <set>

namespace cairn::causality {
namespace {

class WindowMaker {
  public:
    WindowMaker(const Computation& whole, std::size_t most, Index around)
        : c_(whole), inside_(whole.size(), false) {
        const auto order = whole.order();
        std::size_t from = 0;
        if (around != none) {
            const auto at =
                static_cast<std::size_t>(std::find(order.begin(), order.end(), around) - order.begin());
            from = std::min(at - std::min(at, most / 2), order.size() - std::min(order.size(), most));
        }
        for (std::size_t i = from; i < std::min(order.size(), from + most); ++i) inside_[order[i]] = true;
        for (const Group& group : whole.groups())
            whole_.push_back(std::all_of(group.members.begin(), group.members.end(),
                                         [&](Index member) { return inside_[member]; }));
    }
    [[nodiscard]] Result<Window> make() const {
        MemoryTrace trace(c_.processes());
        for (std::size_t i = 1; i < c_.places().size(); ++i) trace.add_place(c_.places()[i]);
        for (const Communicator& each : c_.communicators()) trace.communicator(each);
        std::vector<Position> base(c_.processes(), 0);
        for (Process p = 0; p < c_.processes(); ++p) {
            std::set<std::uint32_t> open;
            for (Position at = 0; at < c_.size(p); ++at) {
                const Index e = c_.first(p) + at;
                if (!inside_[e]) continue;
                if (trace.events(p).empty()) base[p] = at;
                trace.append(p, drawn(e, open, trace.events(p).empty()));
            }
        }
        auto made = TRY(Computation::load(trace));
        return Window{std::move(made), std::move(base)};
    }

  private:
    [[nodiscard]] Event drawn(Index e, std::set<std::uint32_t>& open, bool is_first) const {
        Event event = c_.event(e);
        // Types have their numbers in the whole.
        event.type = 0;
        event.bytes = unknown_bytes;
        const Index partner = c_.partner(e);
        // By numbers, since some aren't there to be counted.
        if (event.kind == Kind::send) event.message = std::uint64_t{c_.id(e).position} + 1;
        if (event.kind == Kind::receive && partner != none)
            event.message = std::uint64_t{c_.id(partner).position} + 1;
        if (is_first) event.flags &= static_cast<std::uint8_t>(~Flag::joined);
        if (event.opens()) open.insert(event.request);
        const bool closes_one = event.closes() && open.erase(event.request) > 0;
        if (event.closes() && !closes_one) event.request = 0;
        const bool alone = (event.kind == Kind::receive && (partner == none || !inside_[partner])) ||
                           (event.kind == Kind::collective && !whole_[c_.group_number(e)]) ||
                           (event.kind == Kind::complete && event.request == 0);
        if (!alone) return event;
        Event internal{.kind = closes_one ? Kind::complete : Kind::internal};
        internal.flags = static_cast<std::uint8_t>(event.flags & (Flag::joined | Flag::nondeterministic));
        if (closes_one) internal.request = event.request;
        internal.place = event.place;
        internal.time = event.time;
        internal.took = event.timed_at_call() ? 0 : event.took;
        return internal;
    }

    const Computation& c_;
    std::vector<bool> inside_, whole_;
};

}  // namespace

Result<Window> window_of(const Computation& whole, std::size_t most, Index around) {
    return WindowMaker(whole, most, around).make();
}

}  // namespace cairn::causality
