// The protocols of Raynal 2013, chapter 8, each a part of one process.
#pragma once

#include <vector>

#include "causality/protocol/bytes.h"
#include "causality/protocol/changes.h"
#include "causality/protocol/protocol.h"

namespace cairn::causality {

// Checkpoints are taken when a process likes. Nothing is added to messages; nothing is promised.
class Uncoordinated final : public Protocol {
  public:
    using Protocol::Protocol;
    void take_checkpoint() override {}
    std::size_t send(Process, std::span<std::uint8_t>) override { return 0; }
    Result<bool> receive(Process, std::span<const std::uint8_t> piggyback) override {
        if (!piggyback.empty()) return damaged();
        return false;
    }
    void deliver() override {}
    std::size_t most_piggyback() const override { return 0; }
    std::size_t stored_size() const override { return 0; }
    void store(std::span<std::uint8_t>) const override {}
    Result<> load(std::span<const std::uint8_t> from) override {
        if (!from.empty()) return damaged();
        return {};
    }
};

// Fig. 8.7, after Briatico, Ciuffoletti and Simoncini 1984; with `only_if_sent` the improvement below it. No
// Z-cycles.
class IndexProtocol final : public Protocol {
  public:
    IndexProtocol(Process self, Process processes, bool only_if_sent)
        : Protocol(self, processes), only_if_sent_(only_if_sent) {}
    void take_checkpoint() override;
    std::size_t send(Process to, std::span<std::uint8_t> into) override;
    Result<bool> receive(Process from, std::span<const std::uint8_t> piggyback) override;
    void deliver() override;
    std::size_t most_piggyback() const override { return most_varint; }
    std::size_t stored_size() const override { return 4 * sizeof(std::uint32_t); }
    void store(std::span<std::uint8_t> into) const override;
    Result<> load(std::span<const std::uint8_t> from) override;
    std::optional<DatedCheckpoint> date() const override { return last_; }

  private:
    const bool only_if_sent_;
    bool asked_ = false;  // receive() wants a checkpoint
    std::uint32_t arriving_ = 0;
    std::uint32_t clock_ = 1;
    std::uint32_t first_sent_ = none;  // clock on the first message since the last checkpoint
    DatedCheckpoint last_{1, none};
};

// Fig. 8.13: in each interval all receives come before all sends. RDT.
class Russell final : public Protocol {
  public:
    using Protocol::Protocol;
    void take_checkpoint() override { sent_ = 0; }
    std::size_t send(Process, std::span<std::uint8_t>) override {
        sent_ = 1;
        return 0;
    }
    Result<bool> receive(Process, std::span<const std::uint8_t> piggyback) override {
        if (!piggyback.empty()) return damaged();
        return sent_ != 0;
    }
    void deliver() override {}
    std::size_t most_piggyback() const override { return 0; }
    std::size_t stored_size() const override { return 1; }
    void store(std::span<std::uint8_t> into) const override { into[0] = sent_; }
    Result<> load(std::span<const std::uint8_t> from) override {
        if (from.size() != 1 || from[0] > 1) return damaged();
        sent_ = from[0];
        return {};
    }

  private:
    std::uint8_t sent_ = 0;
};

// Fig. 8.14, fixed dependency set after send (Wang 1997). RDT.
class Fdas final : public Protocol {
  public:
    Fdas(Process self, Process processes, Encoding encoding);
    void take_checkpoint() override;
    std::size_t send(Process to, std::span<std::uint8_t> into) override;
    Result<bool> receive(Process from, std::span<const std::uint8_t> piggyback) override;
    void deliver() override;
    std::size_t most_piggyback() const override;
    std::size_t stored_size() const override { return (std::size_t{n_} * 2 + 1) * sizeof(std::uint32_t); }
    void store(std::span<std::uint8_t> into) const override;
    Result<> load(std::span<const std::uint8_t> from) override;
    std::span<const std::uint32_t> vector() const override { return stored_; }

  private:
    const Encoding encoding_;
    std::uint32_t sent_ = 0;
    std::vector<std::uint32_t> now_, stored_;  // tdv_i, and the last checkpoint's
    std::vector<std::uint32_t> arriving_;      // as it came, or pairs of entry and value
    std::size_t arrived_ = 0;                  // pairs
    Changes changes_;
};

// Fig. 8.18 (Baldoni, Helary, Mostefaoui, Raynal 1997) with the indices that hold up against the definitions
// (test/unit/causality_protocol_test.cpp). RDT.
class Bhmr final : public Protocol {
  public:
    Bhmr(Process self, Process processes, Encoding encoding);
    void take_checkpoint() override;
    std::size_t send(Process to, std::span<std::uint8_t> into) override;
    Result<bool> receive(Process from, std::span<const std::uint8_t> piggyback) override;
    void deliver() override;
    std::size_t most_piggyback() const override;
    std::size_t stored_size() const override;
    void store(std::span<std::uint8_t> into) const override;
    Result<> load(std::span<const std::uint8_t> from) override;
    std::span<const std::uint32_t> vector() const override { return stored_; }

  private:
    using Word = std::uint64_t;
    // n rows of n bits.
    struct Bits {
        std::vector<Word> words;
        std::size_t row_words = 0;
        void resize(Process n, std::size_t rows) {
            row_words = (n + 63) / 64;
            words.assign(row_words * rows, 0);
        }
        Word* row(std::size_t k) { return words.data() + k * row_words; }
        [[nodiscard]] const Word* row(std::size_t k) const { return words.data() + k * row_words; }
        [[nodiscard]] bool get(std::size_t k, std::size_t bit) const {
            return (row(k)[bit / 64] >> bit % 64 & 1U) != 0;
        }
        void set(std::size_t k, std::size_t bit) { row(k)[bit / 64] |= Word{1} << bit % 64; }
        void clear(std::size_t k) { std::fill(row(k), row(k) + row_words, 0); }
    };
    [[nodiscard]] std::size_t row_bytes() const { return (n_ + 7) / 8; }
    [[nodiscard]] bool tail_clear(const Word* row) const;
    [[nodiscard]] bool would_force() const;

    const Encoding encoding_;
    std::vector<std::uint32_t> now_, stored_;
    Bits sent_to_, pure_, causal_;
    // The message that arrives: which entries it has, with their values.
    std::vector<std::uint32_t> entries_, values_;
    std::size_t arrived_ = 0;
    Process from_ = none;
    Bits their_pure_, their_causal_;
    Changes changes_;
};

// Section 8.5: uncoordinated, and what may be in transit over some recovery line is logged by its sender.
// FIFO channels.
class SenderLogging final : public Protocol {
  public:
    SenderLogging(Process self, Process processes, Encoding encoding);
    // Afterwards checkpoint() is what has to become stable together with the state.
    void take_checkpoint() override;
    // The message itself is kept by the host, under number_sent(to), until a checkpoint's log leaves it out.
    std::size_t send(Process to, std::span<std::uint8_t> into) override;
    Result<bool> receive(Process from, std::span<const std::uint8_t> piggyback) override;
    void deliver() override;
    std::size_t most_piggyback() const override;
    std::size_t stored_size() const override;
    void store(std::span<std::uint8_t> into) const override;
    Result<> load(std::span<const std::uint8_t> from) override;
    std::size_t logged() const override { return log_.size(); }

    [[nodiscard]] const LoggedCheckpoint& checkpoint() const { return last_; }
    [[nodiscard]] std::uint32_t number_sent(Process to) const { return sent_[to]; }

  private:
    [[nodiscard]] std::uint32_t& known(Process receiver, Process sender) {
        return known_[std::size_t{receiver} * n_ + sender];
    }
    const Encoding encoding_;
    std::vector<std::uint32_t> sent_;
    // rec_known by receiver and sender, then ckpt_vc: one table, as both are merged by maximum.
    std::vector<std::uint32_t> known_, arriving_;
    std::size_t arrived_ = 0;
    Process from_ = none;
    std::vector<LoggedMessage> log_;
    LoggedCheckpoint last_;
    Changes changes_;
};

}  // namespace cairn::causality
