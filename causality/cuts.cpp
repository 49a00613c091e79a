#include "causality/cuts.h"

#include <algorithm>
#include <set>

namespace cairn::causality {

Cut join(const Cut& a, const Cut& b) {
    Cut both(a.size());
    std::transform(a.begin(), a.end(), b.begin(), both.begin(),
                   [](auto x, auto y) { return std::max(x, y); });
    return both;
}

Cut meet(const Cut& a, const Cut& b) {
    Cut both(a.size());
    std::transform(a.begin(), a.end(), b.begin(), both.begin(),
                   [](auto x, auto y) { return std::min(x, y); });
    return both;
}

bool within(const Cut& a, const Cut& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto x, auto y) { return x <= y; });
}

bool consistent(const Computation& computation, const ClockTable& clocks, const Cut& cut) {
    Cut clock(cut.size());
    for (Process p = 0; p < cut.size(); ++p) {
        if (cut[p] == 0) continue;
        clocks.clock(computation.first(p) + cut[p] - 1, clock);
        if (!within(clock, cut)) return false;
    }
    return true;
}

Cut earliest_after(const Computation& computation, const ClockTable& clocks, Index event) {
    Cut cut(computation.processes());
    clocks.clock(event, cut);
    return cut;
}

Cut latest_before(const Computation& computation, const ClockTable& clocks, Index event) {
    Cut cut(computation.processes());
    const EventId at = computation.id(event);
    for (Process p = 0; p < cut.size(); ++p) {
        // What happens after the event is the end of each process.
        Position least = 0, most = computation.size(p);
        if (p == at.process) least = most = at.position;
        while (least < most) {
            const Position middle = least + (most - least) / 2;
            if (clocks.before(event, computation.first(p) + middle))
                most = middle;
            else
                least = middle + 1;
        }
        cut[p] = least;
    }
    return cut;
}

void for_each_consistent_cut(const Computation& computation, const ClockTable& clocks,
                             const std::function<bool(const Cut&)>& visit) {
    std::set<Cut> level{Cut(computation.processes())};
    Cut clock(computation.processes());
    while (!level.empty()) {
        std::set<Cut> next;
        for (const Cut& cut : level) {
            if (!visit(cut)) return;
            for (Process p = 0; p < cut.size(); ++p) {
                if (cut[p] == computation.size(p)) continue;
                clocks.clock(computation.first(p) + cut[p], clock);
                Cut larger = cut;
                ++larger[p];
                if (within(clock, larger)) next.insert(std::move(larger));
            }
        }
        level = std::move(next);
    }
}

}  // namespace cairn::causality
