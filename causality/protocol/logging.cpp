// Sender-based message logging under uncoordinated checkpoints.
#include <algorithm>

#include "causality/protocol/protocols.h"

namespace cairn::causality {

SenderLogging::SenderLogging(Process self, Process processes, Encoding encoding)
    : Protocol(self, processes),
      encoding_(encoding),
      sent_(processes, 0),
      known_(std::size_t{processes} * processes + processes, 0),
      arriving_(2 * known_.size(), 0) {
    if (encoding == Encoding::differences)
        changes_ = Changes(static_cast<std::uint32_t>(known_.size()), processes);
    log_.reserve(1024);
    last_.log.reserve(1024);
    last_.checkpoints.resize(processes);
    last_.sent.resize(processes);
    last_.received.resize(processes);
    take_checkpoint();
}

void SenderLogging::take_checkpoint() {
    const auto own = static_cast<std::uint32_t>(std::size_t{n_} * n_ + self_);
    ++known_[own];
    if (encoding_ == Encoding::differences) changes_.touch(own);
    std::copy_n(known_.begin() + static_cast<std::ptrdiff_t>(std::size_t{n_} * n_), n_,
                last_.checkpoints.begin());
    std::copy(sent_.begin(), sent_.end(), last_.sent.begin());
    std::copy_n(known_.begin() + static_cast<std::ptrdiff_t>(std::size_t{self_} * n_), n_,
                last_.received.begin());
    last_.log.clear();
    // A causal path from the receipt leads here: no line through this checkpoint or a later one has it in
    // transit.
    for (const LoggedMessage& each : log_)
        if (each.number > known(each.destination, self_)) last_.log.push_back(each);
    log_.clear();
}

std::size_t SenderLogging::most_piggyback() const {
    return encoding_ == Encoding::full ? known_.size() * sizeof(std::uint32_t)
                                       : known_.size() * 2 * most_varint;
}

std::size_t SenderLogging::send(Process to, std::span<std::uint8_t> into) {
    log_.push_back({to, ++sent_[to]});
    ByteWriter out(into);
    if (encoding_ == Encoding::full) {
        out.raw(known_.data(), known_.size());
        return out.size();
    }
    changes_.since_last(to, [&](std::uint32_t item) {
        out.varint(item);
        out.varint(known_[item]);
    });
    return out.size();
}

Result<bool> SenderLogging::receive(Process from, std::span<const std::uint8_t> piggyback) {
    arrived_ = 0;
    from_ = from;
    if (from >= n_) return damaged();
    ByteTaker in(piggyback);
    if (encoding_ == Encoding::full) {
        if (piggyback.size() != most_piggyback()) return damaged();
        in.raw(arriving_.data(), known_.size());
        arrived_ = known_.size();
        return false;
    }
    std::size_t count = 0;
    while (!in.done()) {
        const std::uint32_t item = in.varint(), value = in.varint();
        if (!in.ok() || item >= known_.size() || count == known_.size()) return damaged();
        arriving_[2 * count] = item;
        arriving_[2 * count + 1] = value;
        ++count;
    }
    arrived_ = count;
    return false;
}

void SenderLogging::deliver() {
    if (from_ == none) return;
    if (encoding_ == Encoding::full) {
        for (std::size_t i = 0; i < arrived_; ++i) known_[i] = std::max(known_[i], arriving_[i]);
    } else {
        for (std::size_t i = 0; i < arrived_; ++i) {
            const std::uint32_t item = arriving_[2 * i], value = arriving_[2 * i + 1];
            if (value <= known_[item]) continue;
            known_[item] = value;
            changes_.touch(item);
        }
    }
    arrived_ = 0;
    ++known(self_, from_);
    if (encoding_ == Encoding::differences)
        changes_.touch(static_cast<std::uint32_t>(std::size_t{self_} * n_ + from_));
    from_ = none;
}

// The log goes to stable storage with each checkpoint (last_.log) and is empty behind it: what is stored in
// between is a log too.
std::size_t SenderLogging::stored_size() const {
    return (n_ + known_.size() + 2 * log_.size()) * sizeof(std::uint32_t);
}

void SenderLogging::store(std::span<std::uint8_t> into) const {
    ByteWriter out(into);
    out.raw(sent_.data(), n_);
    out.raw(known_.data(), known_.size());
    out.raw(log_.data(), log_.size());
}

Result<> SenderLogging::load(std::span<const std::uint8_t> from) {
    const std::size_t fixed = (n_ + known_.size()) * sizeof(std::uint32_t);
    if (from.size() < fixed || (from.size() - fixed) % sizeof(LoggedMessage) != 0) return damaged();
    ByteTaker in(from);
    in.raw(sent_.data(), n_);
    in.raw(known_.data(), known_.size());
    log_.resize((from.size() - fixed) / sizeof(LoggedMessage));
    in.raw(log_.data(), log_.size());
    for (const LoggedMessage& each : log_)
        if (each.destination >= n_) return damaged();
    arrived_ = 0;
    from_ = none;
    if (encoding_ == Encoding::differences) {
        changes_.forget();
        for (std::uint32_t item = 0; item < known_.size(); ++item)
            if (known_[item] != 0) changes_.touch(item);
    }
    return {};
}

}  // namespace cairn::causality
