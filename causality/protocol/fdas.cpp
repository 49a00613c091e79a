// Fixed dependency after send, one object for each process.
#include "causality/protocol/protocols.h"

namespace cairn::causality {

Fdas::Fdas(Process self, Process processes, Encoding encoding)
    : Protocol(self, processes),
      encoding_(encoding),
      now_(processes, 0),
      stored_(processes, 0),
      arriving_(std::size_t{processes} * 2, 0) {
    if (encoding == Encoding::differences) changes_ = Changes(processes, processes);
    take_checkpoint();
}

void Fdas::take_checkpoint() {
    std::copy(now_.begin(), now_.end(), stored_.begin());
    sent_ = 0;
    ++now_[self_];
    if (encoding_ == Encoding::differences) changes_.touch(self_);
}

std::size_t Fdas::most_piggyback() const {
    return encoding_ == Encoding::full ? n_ * sizeof(std::uint32_t) : 2 * most_varint * n_;
}

std::size_t Fdas::send(Process to, std::span<std::uint8_t> into) {
    sent_ = 1;
    ByteWriter out(into);
    if (encoding_ == Encoding::full) {
        out.raw(now_.data(), n_);
        return out.size();
    }
    changes_.since_last(to, [&](std::uint32_t k) {
        out.varint(k);
        out.varint(now_[k]);
    });
    return out.size();
}

Result<bool> Fdas::receive(Process, std::span<const std::uint8_t> piggyback) {
    ByteTaker in(piggyback);
    std::uint32_t news = 0;
    if (encoding_ == Encoding::full) {
        if (piggyback.size() != n_ * sizeof(std::uint32_t)) return damaged();
        in.raw(arriving_.data(), n_);
        for (Process k = 0; k < n_; ++k) news |= arriving_[k] > now_[k] ? 1U : 0U;
        return news != 0 && sent_ != 0;
    }
    arrived_ = 0;
    while (!in.done()) {
        const std::uint32_t k = in.varint(), value = in.varint();
        if (!in.ok() || k >= n_ || arrived_ == n_) {
            arrived_ = 0;
            return damaged();
        }
        arriving_[2 * arrived_] = k;
        arriving_[2 * arrived_ + 1] = value;
        ++arrived_;
        news |= value > now_[k] ? 1U : 0U;
    }
    return news != 0 && sent_ != 0;
}

void Fdas::deliver() {
    if (encoding_ == Encoding::full) {
        for (Process k = 0; k < n_; ++k) now_[k] = std::max(now_[k], arriving_[k]);
        return;
    }
    for (std::size_t i = 0; i < arrived_; ++i) {
        const std::uint32_t k = arriving_[2 * i], value = arriving_[2 * i + 1];
        if (value <= now_[k]) continue;
        now_[k] = value;
        changes_.touch(k);
    }
    arrived_ = 0;
}

void Fdas::store(std::span<std::uint8_t> into) const {
    ByteWriter out(into);
    out.raw(&sent_, 1);
    out.raw(now_.data(), n_);
    out.raw(stored_.data(), n_);
}

Result<> Fdas::load(std::span<const std::uint8_t> from) {
    if (from.size() != stored_size()) return damaged();
    ByteTaker in(from);
    in.raw(&sent_, 1);
    in.raw(now_.data(), n_);
    in.raw(stored_.data(), n_);
    if (encoding_ == Encoding::differences) {
        changes_.forget();
        for (Process k = 0; k < n_; ++k)
            if (now_[k] != 0) changes_.touch(k);
    }
    return {};
}

}  // namespace cairn::causality
