// Checkpoints and rollback for a causal debugger (Aoyagi, Manabe 1994), as functions of the histories that
// the processes keep: which state each goes to when the focus moves along a message.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "causality/event.h"
#include "common/error.h"

namespace cairn::causality {

using SendVector = std::vector<std::uint32_t>;  // for each process the number of its last known send

struct HistoryEntry {
    enum class What : std::uint8_t { send, receive, checkpoint } what = What::send;
    Process peer = none;  // send: to whom; receive: from whom
    std::uint32_t number =
        0;              // send: its number; receive: the message's own send number; checkpoint: its number
    SendVector vector;  // receive: after the merge; checkpoint: when it was taken
    std::uint64_t contents = 0;  // receive: whatever the host finds the message by
    bool operator==(const HistoryEntry&) const = default;
};
using History = std::vector<HistoryEntry>;

// Procedure 1: one process while it runs. The clock ticks at sends only.
class Recorder {
  public:
    Recorder(Process self, Process processes) : self_(self), vector_(processes, 0) {}
    // The vector that goes with the message.
    const SendVector& send(Process to);
    void receive(Process from, const SendVector& with_message, std::uint64_t contents);
    // Its number, from 1; 0 is the initial state.
    std::uint32_t checkpoint();
    [[nodiscard]] const History& history() const { return history_; }
    [[nodiscard]] const SendVector& vector() const { return vector_; }

  private:
    Process self_;
    SendVector vector_;
    std::uint32_t checkpoints_ = 0;
    History history_;
};

// A message on its way: sent, not received.
struct InTransit {
    Process from = none;
    std::uint32_t number = 0;
    std::uint64_t contents = 0;
    bool operator==(const InTransit&) const = default;
};

struct Target {
    std::uint32_t checkpoint = 0;  // which to restore; 0 is the initial state
    std::size_t restored = 0;      // entries of the history before that checkpoint's state
    std::size_t run_to = 0;        // entries that have happened when it stops; the history is cut there
    // What is then in the process's queue, in order: received later in the history and now put back, then
    // what was drained from channels and queues and was sent before the cut.
    std::vector<InTransit> queue;
};

struct Rollback {
    SendVector vector;  // SV_e: of the target state of the process in focus
    std::vector<Target> targets;
};

// Procedure 2: the focus goes back along the number-th message of process `sender`, to right after what it
// received last before that send; everybody else to the first state consistent with it. `drained[j]`: what
// was in j's channels and queues, in order. Fails if there is no such send.
[[nodiscard]] Result<Rollback> backward(std::span<const History> histories,
                                        std::span<const std::vector<InTransit>> drained, Process sender,
                                        std::uint32_t number);

// The focus goes forward along a message to right after its receipt: for each process how many entries of its
// history have happened in the first consistent state, where `done[p]` of them have happened already. Fails
// if it hasn't been received in these histories.
[[nodiscard]] Result<std::vector<std::size_t>> forward(std::span<const History> histories,
                                                       std::span<const std::size_t> done, Process sender,
                                                       std::uint32_t number, Process receiver);

}  // namespace cairn::causality
