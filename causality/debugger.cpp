#include "causality/debugger.h"

#include <algorithm>

namespace cairn::causality {
namespace {

using What = HistoryEntry::What;

// Entries up to and including the number-th send; 0 for number 0.
std::size_t behind_send(const History& history, std::uint32_t number) {
    if (number == 0) return 0;
    for (std::size_t i = 0; i < history.size(); ++i)
        if (history[i].what == What::send && history[i].number == number) return i + 1;
    return history.size();
}

}  // namespace

const SendVector& Recorder::send(Process to) {
    ++vector_[self_];
    history_.push_back({.what = What::send, .peer = to, .number = vector_[self_], .vector = {}});
    return vector_;
}

// The message's own number is kept, and not only the merged vector, which a third process's news may have
// raised above it.
void Recorder::receive(Process from, const SendVector& with_message, std::uint64_t contents) {
    for (std::size_t k = 0; k < vector_.size(); ++k) vector_[k] = std::max(vector_[k], with_message[k]);
    history_.push_back({What::receive, from, with_message[from], vector_, contents});
}

std::uint32_t Recorder::checkpoint() {
    history_.push_back({.what = What::checkpoint, .number = ++checkpoints_, .vector = vector_});
    return checkpoints_;
}

Result<Rollback> backward(std::span<const History> histories, std::span<const std::vector<InTransit>> drained,
                          Process sender, std::uint32_t number) {
    const auto n = static_cast<Process>(histories.size());
    if (sender >= n) return fail("there is no process {}", sender);
    const History& focus = histories[sender];
    const std::size_t behind = behind_send(focus, number);
    if (number == 0 || behind == 0 || focus[behind - 1].what != What::send ||
        focus[behind - 1].number != number)
        return fail("process {} has sent no message {}", sender, number);
    std::size_t target = behind - 1;
    while (target > 0 && focus[target - 1].what != What::receive) --target;

    Rollback rollback;
    rollback.vector = target == 0 ? SendVector(n, 0) : focus[target - 1].vector;
    for (Process p = 0; p < n; ++p) {
        const History& history = histories[p];
        Target& mine = rollback.targets.emplace_back();
        const std::uint32_t sent = rollback.vector[p];
        mine.run_to = p == sender ? target : behind_send(history, sent);
        for (std::size_t i = 0; i < mine.run_to; ++i)
            if (history[i].what == What::checkpoint && (p == sender || history[i].vector[p] < sent)) {
                mine.checkpoint = history[i].number;
                mine.restored = i + 1;
            }
        // All of the history: where channels aren't FIFO an earlier message may have come later.
        for (std::size_t i = mine.run_to; i < history.size(); ++i)
            if (history[i].what == What::receive && history[i].number <= rollback.vector[history[i].peer])
                mine.queue.push_back({history[i].peer, history[i].number, history[i].contents});
        for (const InTransit& each : drained[p])
            if (each.number <= rollback.vector[each.from]) mine.queue.push_back(each);
    }
    return rollback;
}

Result<std::vector<std::size_t>> forward(std::span<const History> histories,
                                         std::span<const std::size_t> done, Process sender,
                                         std::uint32_t number, Process receiver) {
    const auto n = static_cast<Process>(histories.size());
    if (sender >= n || receiver >= n) return fail("there is no process {}", std::max(sender, receiver));
    const History& focus = histories[receiver];
    const auto found = std::find_if(focus.begin(), focus.end(), [&](const HistoryEntry& each) {
        return each.what == What::receive && each.peer == sender && each.number == number;
    });
    if (found == focus.end())
        return fail("process {} hasn't received message {} of process {}", receiver, number, sender);
    std::vector<std::size_t> stops;
    for (Process p = 0; p < n; ++p)
        stops.push_back(std::max(done[p], p == receiver ? static_cast<std::size_t>(found - focus.begin()) + 1
                                                        : behind_send(histories[p], found->vector[p])));
    return stops;
}

}  // namespace cairn::causality
