// Sender-based logging for all processes of a simulation at once.
#include "causality/protocol/together.h"

namespace cairn::causality {

LoggingTogether::LoggingTogether(Process processes)
    : Together(processes),
      seen_(processes),
      numbers_(processes),
      channels_(1),
      taken_in_(processes),
      logs_(processes) {
    for (Process p = 0; p < processes; ++p) take_checkpoint(p);
}

void LoggingTogether::take_checkpoint(Process p) {
    next_state(p);
    const std::int32_t* seen = seen_.of(p);
    taken_in_[p].push_back(seen[p]);
    Log& log = logs_[p];
    log.kept.clear();
    for (const Logged& each : log.open) {
        const std::vector<std::int32_t>& received_in = channels_[each.channel].received_in;
        const auto [destination, number] = each.message;
        const bool known = number <= received_in.size() && received_in[number - 1] <= seen[destination];
        if (!known) log.kept.push_back(each.message);
    }
    log.open.clear();
}

std::size_t LoggingTogether::send(Process from, Process to, std::uint32_t slot) {
    std::uint32_t& number = numbers_(from, to);
    if (number == 0) {
        number = static_cast<std::uint32_t>(channels_.size());
        channels_.emplace_back();
    }
    logs_[from].open.push_back({{to, ++channels_[number].sent}, number});
    if (slot >= travelling_.size()) travelling_.resize(slot + 1);
    travelling_[slot] = {seen_.send(from), number};
    return (std::size_t{n_} * n_ + n_) * sizeof(std::uint32_t);
}

void LoggingTogether::deliver(Process to, std::uint32_t slot) {
    const auto [seen, channel] = travelling_[slot];
    next_state(to);
    seen_.merge(to, seen);
    channels_[channel].received_in.push_back(seen_.of(to)[to]);
    seen_.release(seen);
}

LoggedCheckpoint LoggingTogether::checkpoint(Process p) const {
    LoggedCheckpoint made;
    const std::int32_t* seen = seen_.of(p);
    for (Process k = 0; k < n_; ++k) {
        const auto& taken = taken_in_[k];
        made.checkpoints.push_back(static_cast<std::uint32_t>(
            std::upper_bound(taken.begin(), taken.end(), seen[k]) - taken.begin()));
        made.sent.push_back(channel(p, k).sent);
        made.received.push_back(static_cast<std::uint32_t>(channel(k, p).received_in.size()));
    }
    made.log = logs_[p].kept;
    return made;
}

std::vector<std::uint8_t> LoggingTogether::piggyback(std::uint32_t slot) const {
    const std::int32_t* seen = seen_.row(travelling_[slot].seen);
    const auto until = [&](const std::vector<std::int32_t>& states, Process whose) {
        return static_cast<std::uint32_t>(std::upper_bound(states.begin(), states.end(), seen[whose]) -
                                          states.begin());
    };
    std::vector<std::uint32_t> known;
    for (Process receiver = 0; receiver < n_; ++receiver)
        for (Process sender = 0; sender < n_; ++sender)
            known.push_back(until(channel(sender, receiver).received_in, receiver));
    for (Process p = 0; p < n_; ++p) known.push_back(until(taken_in_[p], p));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(known.data());
    return {bytes, bytes + known.size() * sizeof(std::uint32_t)};
}

}  // namespace cairn::causality
