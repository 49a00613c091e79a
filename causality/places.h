// Places: cuts at which every operation begun is complete, so that processes can be saved each by itself,
// with no channel state (Mashechkin, Smirnov 2006). Found in time linear in the trace:
// docs/causality-complexity.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "causality/cuts.h"

namespace cairn::causality {

// Events that are before a place only together are one node: an operation's, a call's, those between the
// opening and the closing of a request, a nondeterministic one and its neighbours. The places are the
// down-sets of the nodes under "its process did it later", contracted to a graph without circles. They are a
// lattice: join and meet (cuts.h) of places are places.
class Places {
  public:
    explicit Places(const Computation& computation);

    // The smallest place behind this event, the largest one before it, of all the smallest and the largest:
    // each in time linear in the part of the trace that it moves over. Nothing where no place is.
    [[nodiscard]] std::optional<Cut> earliest_after(Index event) const;
    [[nodiscard]] std::optional<Cut> latest_before(Index event) const;
    [[nodiscard]] std::optional<Cut> first() const;
    [[nodiscard]] std::optional<Cut> last() const;
    [[nodiscard]] bool is_place(const Cut& cut) const;
    // Why it is none: an event before the cut and one behind it that must be on the same side. `behind` is
    // none if the other may never be before a place, `before` is none if the other must be before all.
    struct Obstacle {
        Index before = none, behind = none;
    };
    [[nodiscard]] std::optional<Obstacle> obstacle(const Cut& cut) const;

    // Calls `visit` for each place, smaller ones first, until there are no more, or it says false.
    void for_each(const std::function<bool(const Cut&)>& visit) const;

    // A place as the program may meet it, with the time for which the first process to arrive waits for the
    // last. A process arrives when the last event before the place has happened.
    struct Timed {
        Cut cut;
        std::int64_t time = 0;  // when the last process arrives
        std::int64_t wait = 0;  // since the first one has
        std::uint64_t events = 0;
    };
    // The places with the shortest waits, in the order of their times: at most `most` of them, at least
    // `interval` apart (around its multiples; 0: anywhere). No place between has a shorter wait
    // (docs/causality-complexity.md). The trivial ones, before and behind everything, are left out. O(E log
    // E).
    [[nodiscard]] std::vector<Timed> best(std::size_t most, std::int64_t interval) const;

    // A line of the source where all processes stand at such a place, all in the same pass.
    struct Line {
        std::uint32_t place = 0;       // index into the computation's places
        bool after = false;            // behind the call at this line, not before it
        std::uint32_t passes = 0;      // of the process that passes it least often
        std::uint32_t good = 0;        // passes at which it is a place
        std::uint32_t first_good = 0;  // the first of them, from 0
        std::int64_t mean_wait = 0;
        Cut cut;  // at the first good pass
    };
    // Lines with at least one good pass; those that are always good first, then by waits. O(E). Passes are
    // compared by 64-bit sums that are 0 for each whole node: a wrong one counts as good with probability
    // 2^-64.
    [[nodiscard]] std::vector<Line> lines() const;

  private:
    static constexpr std::uint32_t start = 0, end = 1;  // nodes: always before, never before

    void contract();
    void join_nodes(std::uint32_t a, std::uint32_t b);
    std::uint32_t root(std::uint32_t node);
    [[nodiscard]] std::optional<Cut> grow(Cut cut, std::vector<Index> wanted) const;
    [[nodiscard]] std::optional<Cut> shrink(Cut cut, std::vector<Index> unwanted) const;
    [[nodiscard]] std::vector<std::uint32_t> topological() const;
    [[nodiscard]] std::span<const Index> members(std::uint32_t node) const {
        return {members_.data() + begin_[node], begin_[node + 1] - begin_[node]};
    }
    [[nodiscard]] std::int64_t arrival(Process process, Position cut) const;

    const Computation& computation_;
    std::vector<std::uint32_t> node_;  // of each event; 0 and 1 as above
    std::uint32_t nodes_ = 2;
    bool impossible_ = false;     // start and end are one: no place, not even before everything
    std::vector<Index> members_;  // by node
    std::vector<Index> begin_;
    std::int64_t begun_ = 0;  // the time of the first event: when processes arrive at the place before all
};

}  // namespace cairn::causality
