// Who happens before whom, by vector clocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "causality/computation.h"

namespace cairn::causality {

// What a component of the clock counts. Both decide happens-before; with `transmissions` the component of a
// process is the number of its last send that is known (the send-event vector of Aoyagi and Manabe's causal
// debugger).
enum class Tick { events, transmissions };

// The clock of each event, where the process's own component needs no storage, and the others are kept as
// differences at the events that raise one, with the whole clock at every 16th of those. Let r be the number
// of such events, d how many components each raises on average, n the processes: about 2dr + nr/4 bytes (+ 4
// for each event with `transmissions`), a query decodes at most 16 differences: O(log r + 16 d). With 10
// million events of 64 processes that send at random this is a ninth of the plain table (bench/README.md).
//
// A collective of shape `all` is taken as its return: what every member did before its own call, or up to the
// post by which it begins, happens before it, and the returns of its members are concurrent.
class ClockTable {
  public:
    explicit ClockTable(const Computation& computation, Tick tick = Tick::events);

    // The clock right after this event, into n numbers.
    void clock(Index event, std::span<std::uint32_t> into) const;
    [[nodiscard]] std::uint32_t component(Index event, Process of) const;
    // a happens before b; no event happens before itself.
    [[nodiscard]] bool before(Index a, Index b) const;
    [[nodiscard]] std::size_t bytes() const;

    // Transmissions of its process up to and including this event (Tick::transmissions only).
    [[nodiscard]] std::uint32_t transmissions(Index event) const { return sent_[event]; }

  private:
    struct Line {                         // of one process
        std::vector<Position> raised_at;  // events that raise components of others
        std::vector<std::uint8_t> differences;
        std::vector<std::uint64_t> anchors;   // where in `differences` the records behind each anchor begin
        std::vector<std::uint32_t> absolute;  // n numbers for each anchor
    };
    static constexpr std::size_t stride = 16;

    void count_transmissions();
    // What the members of a whole operation of shape `all` bring into it: those with a post as it comes, all
    // others when the first of them is met, which none has left then.
    void gather_post(Index post, std::vector<std::uint32_t>& into);
    void gather_others(const Group& group, std::vector<std::uint32_t>& into);
    void hear_at_root(Index at, const Group& group);
    [[nodiscard]] Index entry(Index event) const {
        const auto found = beginnings_.find(event);
        return found == beginnings_.end() ? event : found->second;
    }

    void merge(Index at, std::span<const std::uint32_t> from);
    void arrive(Index at, Index from);
    [[nodiscard]] std::uint32_t own(Index event) const;
    [[nodiscard]] std::uint32_t entered(Index event) const;

    const Computation& computation_;
    std::unordered_map<Index, Index> beginnings_;
    Tick tick_;
    std::vector<Line> lines_;
    std::vector<std::uint32_t> sent_;
    // While the table is made: each process's clock so far, but for its own component; room for another's.
    std::vector<std::vector<std::uint32_t>> now_;
    std::vector<std::uint32_t> other_;
};

// Whether others may learn something by this event: a send, or a part in a collective that data leaves from.
[[nodiscard]] bool transmits(const Event& event, Process process);

}  // namespace cairn::causality
