// Which global checkpoint belongs to what a protocol has stored (Raynal 2013, chapter 8), as functions of
// that alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "causality/pattern.h"

namespace cairn::causality {

// An index protocol's checkpoint. Protocol clocks jump, so theorem 11's "last with date <= d" isn't
// consistent here.
struct DatedCheckpoint {
    std::uint32_t date = 0;
    // The clock on the first message that was sent in the interval before this checkpoint; `none` if there
    // was none.
    std::uint32_t first_sent = none;
};

// BCS: of each process the first checkpoint with date >= `date`, its last one if there is none. `stored[i]`:
// the checkpoints of process i in their order, the state at the end included.
[[nodiscard]] GlobalCheckpoint global_of_date(std::span<const std::vector<DatedCheckpoint>> stored,
                                              std::uint32_t date);

// BCS with `sent`: the last one with date <= `date`; but the next one if a message with a smaller clock was
// sent behind it.
[[nodiscard]] GlobalCheckpoint global_of_date_sent(std::span<const std::vector<DatedCheckpoint>> stored,
                                                   std::uint32_t date);

// Under RDT: the first consistent global checkpoint with this one, from its dependence vector alone.
// `last[j]`: the number of j's last checkpoint so far; one above it stands for j's next one.
[[nodiscard]] GlobalCheckpoint global_of_vector(std::span<const std::uint32_t> vector, Checkpoint c,
                                                std::span<const std::uint32_t> last);

// --- Uncoordinated checkpoints with sender-based logging (8.5)

struct LoggedMessage {
    Process destination = none;
    std::uint32_t number = 0;  // the number-th message to it, from 1
    bool operator==(const LoggedMessage&) const = default;
};

// What a process keeps of a checkpoint, beside its state.
struct LoggedCheckpoint {
    std::vector<std::uint32_t> checkpoints;  // ckpt_vc, own entry counted: the first checkpoint has 1
    std::vector<std::uint32_t> sent;         // sn: messages to each
    std::vector<std::uint32_t> received;     // rec_known[i][i, *]: messages from each
    std::vector<LoggedMessage> log;  // sent since the checkpoint before, but for those known to be needless
};

// The recovery line: from the last checkpoints each process steps back to its latest one that no other's
// chosen one precedes, until they are pairwise concurrent. Indices into `stored[i]`, which begins with the
// initial state.
[[nodiscard]] GlobalCheckpoint concurrent_line(std::span<const std::vector<LoggedCheckpoint>> stored);

// The messages in the channel from i to j at this line, in order: from the logs of all of i's checkpoints up
// to the line.
[[nodiscard]] std::vector<LoggedMessage> channel_state(std::span<const std::vector<LoggedCheckpoint>> stored,
                                                       const GlobalCheckpoint& line, Process from,
                                                       Process to);

// What no recovery can need once this line is consistent and stored: checkpoints before it, and logged
// messages that were received before it. Drops them; `line` then is checkpoint 0 of each process.
void reclaim(std::span<std::vector<LoggedCheckpoint>> stored, const GlobalCheckpoint& line);

}  // namespace cairn::causality
