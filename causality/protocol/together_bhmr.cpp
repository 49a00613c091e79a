// BHMR for all processes of a simulation at once, which share what messages carry.
#include "causality/protocol/together.h"

namespace cairn::causality {

BhmrTogether::BhmrTogether(Process processes, std::size_t collect_at)
    : Together(processes),
      dates_(processes),
      seen_(processes),
      history_(processes),
      sent_to_(processes),
      has_sent_to_(std::size_t{processes} * processes),
      collect_at_(collect_at),
      at_least_(collect_at) {
    for (Process p = 0; p < processes; ++p) {
        dates_.make();
        take_checkpoint(p);
    }
}

void BhmrTogether::take_checkpoint(Process p) {
    seen_.changes(p);
    std::int32_t* dates = dates_.row(p);
    const std::int32_t own = dates[p] / 2;
    dates_.set_lowest_bits(p);
    dates[p] = 2 * (own + 1);
    for (const Process to : sent_to_[p]) has_sent_to_[std::size_t{p} * n_ + to] = false;
    sent_to_[p].clear();
}

std::size_t BhmrTogether::send(Process from, Process to, std::uint32_t slot) {
    if (!has_sent_to_[std::size_t{from} * n_ + to]) {
        has_sent_to_[std::size_t{from} * n_ + to] = true;
        sent_to_[from].push_back(to);
    }
    if (seen_.changed(from)) {
        if (dates_.used() >= collect_at_) collect();
        ++seen_.of(from)[from];
        history_[from].rows.push_back(dates_.copy(from));
    }
    if (slot >= travelling_.size()) travelling_.resize(slot + 1);
    travelling_[slot] = {from, history_[from].rows.back(), seen_.send(from)};
    const std::size_t row_bytes = (n_ + 7) / 8;
    return n_ * (sizeof(std::uint32_t) + row_bytes) + row_bytes;
}

// Bhmr::would_force(). With T(k) for what k knew in the state of k that is in the message's past: k is in the
// row of l iff T(k)[l] is the message's interval of l, and is never above it.
bool BhmrTogether::receive(Process to, std::uint32_t slot) {
    const Travelling& message = travelling_[slot];
    const std::int32_t *theirs = seen_.row(message.seen), *mine = seen_.of(to);
    if (theirs[message.from] <= mine[message.from]) return false;  // nothing that isn't known
    if (dates_.row(message.dates)[to] == (dates_.row(to)[to] | 1)) return true;
    if (sent_to_[to].empty() || !dates_.greater_somewhere(message.dates, to, to)) return false;
    // There is news. To whom less of k's past is known than we know ourselves, k's knowledge of it isn't.
    for (const Process k : sent_to_[to])
        if (theirs[k] <= mine[k]) return true;
    for (const Process k : sent_to_[to])
        if (k != message.from && dates_.greater_somewhere(message.dates, to, dates_of(k, theirs[k])))
            return true;
    return false;
}

void BhmrTogether::deliver(Process to, std::uint32_t slot) {
    const Travelling& message = travelling_[slot];
    if (seen_.row(message.seen)[message.from] > seen_.of(to)[message.from]) {
        seen_.changes(to);
        seen_.merge(to, message.seen);
        dates_.merge(to, message.dates);
    }
    seen_.release(message.seen);
}

// A state of k can be asked for as long as it is the last one in the past of a process or of a message that
// travels: no other can become the last one in somebody's past, except for k's current one, which is in its
// own.
void BhmrTogether::collect() {
    std::vector<bool> used(dates_.made());
    seen_.each_row([&](const std::int32_t* seen) {
        for (Process k = 0; k < n_; ++k)
            if (seen[k] != 0) used[dates_of(k, seen[k])] = true;
    });
    for (History& each : history_) {
        std::size_t unused = 0;
        bool leading = true;
        for (std::uint32_t& row : each.rows) {
            if (row != none && !used[row]) {
                dates_.drop(row);
                row = none;
            }
            leading = leading && row == none;
            if (leading) ++unused;
        }
        each.first += static_cast<std::uint32_t>(unused);
        each.rows.erase(each.rows.begin(), each.rows.begin() + static_cast<std::ptrdiff_t>(unused));
    }
    collect_at_ = std::max(at_least_, 2 * dates_.used());
}

std::vector<std::uint8_t> BhmrTogether::piggyback(std::uint32_t slot) const {
    const Travelling& message = travelling_[slot];
    const std::int32_t *dates = dates_.row(message.dates), *seen = seen_.row(message.seen);
    const std::size_t row_bytes = (n_ + 7) / 8;
    std::vector<std::uint8_t> bytes(n_ * (sizeof(std::uint32_t) + row_bytes) + row_bytes);
    std::uint8_t* pure = bytes.data() + n_ * sizeof(std::uint32_t);
    const auto set = [](std::uint8_t* row, Process bit) {
        row[bit / 8] = static_cast<std::uint8_t>(row[bit / 8] | 1U << bit % 8);
    };
    for (Process l = 0; l < n_; ++l) {
        const std::int32_t interval = dates[l] / 2;
        std::copy_n(reinterpret_cast<const std::uint8_t*>(&interval), sizeof interval,
                    bytes.data() + l * sizeof interval);
        if (dates[l] % 2 == 0) set(pure, l);
        std::uint8_t* row = pure + row_bytes * (l + 1);
        set(row, l);
        if (interval == 0) continue;
        for (Process k = 0; k < n_; ++k)
            if (seen[k] != 0 && dates_.row(dates_of(k, seen[k]))[l] / 2 == interval) set(row, k);
    }
    return bytes;
}

}  // namespace cairn::causality
