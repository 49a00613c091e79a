// The protocol of Baldoni, Hélary, Mostéfaoui and Raynal, one object for each process.
#include <bit>

#include "causality/protocol/protocols.h"

namespace cairn::causality {

// Row 0 of sent_to_ and pure_ is the whole of them.
Bhmr::Bhmr(Process self, Process processes, Encoding encoding)
    : Protocol(self, processes),
      encoding_(encoding),
      now_(processes, 0),
      stored_(processes, 0),
      entries_(processes, 0),
      values_(processes, 0) {
    sent_to_.resize(processes, 1);
    pure_.resize(processes, 1);
    causal_.resize(processes, processes);
    their_pure_.resize(processes, 1);
    their_causal_.resize(processes, processes);
    pure_.set(0, self);
    for (Process k = 0; k < processes; ++k) causal_.set(k, k);
    if (encoding == Encoding::differences) changes_ = Changes(processes, processes);
    take_checkpoint();
}

void Bhmr::take_checkpoint() {
    std::copy(now_.begin(), now_.end(), stored_.begin());
    sent_to_.clear(0);
    if (encoding_ == Encoding::differences)
        for (Process k = 0; k < n_; ++k)
            if (k == self_ || pure_.get(0, k)) changes_.touch(k);
    pure_.clear(0);
    pure_.set(0, self_);
    causal_.clear(self_);
    causal_.set(self_, self_);
    ++now_[self_];
}

std::size_t Bhmr::most_piggyback() const {
    if (encoding_ == Encoding::full) return n_ * (sizeof(std::uint32_t) + row_bytes()) + row_bytes();
    return n_ * (2 * most_varint + 1 + row_bytes());
}

std::size_t Bhmr::send(Process to, std::span<std::uint8_t> into) {
    sent_to_.set(0, to);
    ByteWriter out(into);
    const auto row = [&](const Word* words) {
        out.raw(reinterpret_cast<const std::uint8_t*>(words), row_bytes());
    };
    if (encoding_ == Encoding::full) {
        out.raw(now_.data(), n_);
        row(pure_.row(0));
        for (Process k = 0; k < n_; ++k) row(causal_.row(k));
        return out.size();
    }
    changes_.since_last(to, [&](std::uint32_t k) {
        out.varint(k);
        out.varint(now_[k]);
        out.varint(pure_.get(0, k) ? 1 : 0);
        row(causal_.row(k));
    });
    return out.size();
}

bool Bhmr::tail_clear(const Word* row) const {
    return n_ % 64 == 0 || row[n_ / 64] >> n_ % 64 == 0;
}

Result<bool> Bhmr::receive(Process from, std::span<const std::uint8_t> piggyback) {
    ByteTaker in(piggyback);
    const auto row = [&](Word* words) {
        return in.raw(reinterpret_cast<std::uint8_t*>(words), row_bytes()) && tail_clear(words);
    };
    arrived_ = 0;
    from_ = from;
    if (from >= n_) return damaged();
    if (encoding_ == Encoding::full) {
        if (piggyback.size() != most_piggyback()) return damaged();
        in.raw(values_.data(), n_);
        if (!row(their_pure_.row(0))) return damaged();
        for (Process k = 0; k < n_; ++k) {
            if (!row(their_causal_.row(k))) return damaged();
            entries_[k] = k;
        }
        arrived_ = n_;
        return would_force();
    }
    their_pure_.clear(0);
    std::size_t count = 0;
    while (!in.done()) {
        if (count == n_) return damaged();
        const std::uint32_t k = in.varint();
        values_[count] = in.varint();
        const std::uint32_t pure = in.varint();
        if (!in.ok() || k >= n_ || pure > 1 || !row(their_causal_.row(k))) return damaged();
        if (pure == 1) their_pure_.set(0, k);
        entries_[count++] = k;
    }
    arrived_ = count;
    return would_force();
}

// Entries that didn't come have not changed since the last message of this channel: they were merged then, so
// they are neither greater than ours nor, where equal, less pure.
bool Bhmr::would_force() const {
    for (std::size_t i = 0; i < arrived_; ++i) {
        const std::uint32_t l = entries_[i];
        if (values_[i] > now_[l]) {
            const Word* to = sent_to_.row(0);
            const Word* doubled = their_causal_.row(l);
            Word hidden = 0;
            for (std::size_t w = 0; w < causal_.row_words; ++w) hidden |= to[w] & ~doubled[w];
            if (hidden != 0) return true;
        }
        if (l == self_ && values_[i] == now_[self_] && !their_pure_.get(0, self_)) return true;
    }
    return false;
}

void Bhmr::deliver() {
    const bool tell = encoding_ == Encoding::differences;
    const std::size_t words = causal_.row_words;
    for (std::size_t i = 0; i < arrived_; ++i) {
        const std::uint32_t k = entries_[i];
        Word* mine = causal_.row(k);
        const Word* theirs = their_causal_.row(k);
        const Word bit = Word{1} << k % 64;
        if (values_[i] > now_[k]) {
            now_[k] = values_[i];
            Word& pure = pure_.row(0)[k / 64];
            pure = (pure & ~bit) | (their_pure_.row(0)[k / 64] & bit);
            std::copy(theirs, theirs + words, mine);
            if (tell) changes_.touch(k);
        } else if (values_[i] == now_[k]) {
            Word changed = 0;
            Word& pure = pure_.row(0)[k / 64];
            if ((pure & bit) != 0 && (their_pure_.row(0)[k / 64] & bit) == 0) {
                pure &= ~bit;
                changed = 1;
            }
            for (std::size_t w = 0; w < words; ++w) {
                changed |= theirs[w] & ~mine[w];
                mine[w] |= theirs[w];
            }
            if (tell && changed != 0) changes_.touch(k);
        }
        // A path to the sender is now one to us.
        if (their_causal_.get(k, from_) && !causal_.get(k, self_)) {
            causal_.set(k, self_);
            if (tell) changes_.touch(k);
        }
    }
    arrived_ = 0;
}

std::size_t Bhmr::stored_size() const {
    return std::size_t{n_} * 2 * sizeof(std::uint32_t) + (n_ + 2) * row_bytes();
}

void Bhmr::store(std::span<std::uint8_t> into) const {
    ByteWriter out(into);
    out.raw(now_.data(), n_);
    out.raw(stored_.data(), n_);
    const auto row = [&](const Word* words) {
        out.raw(reinterpret_cast<const std::uint8_t*>(words), row_bytes());
    };
    row(sent_to_.row(0));
    row(pure_.row(0));
    for (Process k = 0; k < n_; ++k) row(causal_.row(k));
}

Result<> Bhmr::load(std::span<const std::uint8_t> from) {
    if (from.size() != stored_size()) return damaged();
    ByteTaker in(from);
    in.raw(now_.data(), n_);
    in.raw(stored_.data(), n_);
    const auto row = [&](Word* words) {
        in.raw(reinterpret_cast<std::uint8_t*>(words), row_bytes());
        return tail_clear(words);
    };
    if (!row(sent_to_.row(0)) || !row(pure_.row(0))) return damaged();
    for (Process k = 0; k < n_; ++k)
        if (!row(causal_.row(k))) return damaged();
    arrived_ = 0;
    if (encoding_ == Encoding::differences) {
        changes_.forget();
        for (Process k = 0; k < n_; ++k) changes_.touch(k);
    }
    return {};
}

}  // namespace cairn::causality
