// Where a movement leads: what a causal debugger asks of the trace. Nothing is run here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "causality/cuts.h"
#include "mpi/tool/spot.h"

namespace cairn::mpi::debug {

using causality::Computation;
using causality::Cut;
using causality::Index;
using causality::Position;
using causality::Process;

// A process behind so many of its events.
struct State {
    Process rank = 0;
    Position position = 0;
    bool operator==(const State&) const = default;
};

// What made a process go on as it did: a message that it received, or a collective that brought it something.
struct Cause {
    Index receipt = causality::none;
    Index sent = causality::none;  // of a message
};

class Moves {
  public:
    explicit Moves(const Computation& computation);

    // The first state of all that is consistent with this one. A probe that has found a message comes behind
    // its send.
    [[nodiscard]] Cut all(State focus) const;
    // It stands in the call of its next event: that is the call of its last one, or a collective that others
    // have left, so that it has entered it.
    [[nodiscard]] bool within(const Cut& cut, Process rank) const;

    // Calls are counted from 1; their events are in one piece.
    [[nodiscard]] std::uint64_t calls(Process rank) const { return begins_[rank].size(); }
    // How many have begun in that state.
    [[nodiscard]] std::uint64_t call_at(State state) const;
    [[nodiscard]] Position begin(Process rank, std::uint64_t call) const {
        return begins_[rank][static_cast<std::size_t>(call - 1)];
    }
    // Behind it; call 0 is the beginning.
    [[nodiscard]] State behind(Process rank, std::uint64_t call) const;
    [[nodiscard]] State step(State from, std::uint64_t calls) const;
    [[nodiscard]] State step_back(State from, std::uint64_t calls) const;

    // EVENT, "end", FILE:LINE[:PASS] or FUNCTION[:PASS].
    [[nodiscard]] Result<State> find(Process rank, const std::string& at) const;
    // Behind the next call at one of these places, or the one before.
    [[nodiscard]] std::optional<State> next(State from, const std::set<std::uint32_t>& places) const;
    [[nodiscard]] std::optional<State> previous(State from, const std::set<std::uint32_t>& places) const;

    // Along the message that it has just sent, or else sends next, to right behind the call that brings it to
    // its receiver. `sent`: the message.
    [[nodiscard]] Result<State> forward(State from, Index& sent) const;
    // Along the message that it has received last to where its sender was made to send it: behind what that
    // one received last before. `sent`: the message.
    [[nodiscard]] Result<State> back(State from, Index& sent) const;
    // The last before that state; what made the sender of a message send it is the cause before its send.
    [[nodiscard]] std::optional<Cause> cause(State state) const;
    [[nodiscard]] State at(Index event) const;

    // One event happens before the other.
    [[nodiscard]] bool before(Index a, Index b) const { return clocks_.before(a, b); }

    // Sends whose receipts are behind the cut, or nowhere.
    [[nodiscard]] std::vector<Index> in_transit(const Cut& cut) const;

    [[nodiscard]] const Computation& computation() const { return c_; }
    [[nodiscard]] std::string text(Index event) const;

  private:
    [[nodiscard]] bool brings_something(Index event) const;

    const Computation& c_;
    causality::ClockTable clocks_;
    std::vector<std::vector<Position>> begins_;  // of each call its first event
};

}  // namespace cairn::mpi::debug
