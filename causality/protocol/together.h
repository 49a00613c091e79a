// The parts of all processes in one memory, for the simulator. There, what rides on a message need not be
// written down: it can be a reference to what its sender knew. The answers are those of the objects of
// protocol.h, which run inside programs (test/unit/causality_together_test.cpp).
#pragma once

#include <memory>
#include <vector>

#include "causality/channels.h"
#include "causality/protocol/protocol.h"
#include "causality/protocol/rows.h"

namespace cairn::causality {

class Together {
  public:
    explicit Together(Process processes) : n_(processes) {}
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;
    virtual ~Together() = default;

    virtual void take_checkpoint(Process p) = 0;
    // While it travels, a message has a slot: the host's small numbers, used again behind deliver(). The
    // bytes of control data that ride on it.
    virtual std::size_t send(Process from, Process to, std::uint32_t slot) = 0;
    // True: a checkpoint before delivery.
    [[nodiscard]] virtual bool receive(Process to, std::uint32_t slot) = 0;
    virtual void deliver(Process to, std::uint32_t slot) = 0;

    // Of the last take_checkpoint(), to be asked before the process does anything else: messages that its log
    // holds, and what a recovery needs (logging only).
    [[nodiscard]] virtual std::size_t log_size(Process) const { return 0; }
    [[nodiscard]] virtual LoggedCheckpoint checkpoint(Process) const { return {}; }
    // What the slot's message carries, as Protocol::send() writes it.
    [[nodiscard]] virtual std::vector<std::uint8_t> piggyback(std::uint32_t slot) const = 0;

  protected:
    const Process n_;
};

// For each protocol the form that costs least: the whole tables of fdas, bhmr and logging are shared; all
// else is encoded, as between programs.
[[nodiscard]] std::unique_ptr<Together> make_together(ProtocolKind kind, Process processes,
                                                      Encoding encoding);
// Every part an object of protocol.h.
[[nodiscard]] std::unique_ptr<Together> make_encoded(ProtocolKind kind, Process processes, Encoding encoding);

// What processes know, a row of numbers for each, and how it was when messages were sent that now travel:
// copied once for all that are sent in the same state.
class Knowledge {
  public:
    explicit Knowledge(Process processes) : rows_(processes), current_(processes, none) {
        for (Process p = 0; p < processes; ++p) rows_.make();
    }
    [[nodiscard]] std::int32_t* of(Process p) { return rows_.row(p); }
    [[nodiscard]] const std::int32_t* of(Process p) const { return rows_.row(p); }
    // The row that a message from p takes along; it stays as it is until it has been released as often as
    // sent.
    std::uint32_t send(Process p);
    void release(std::uint32_t row) {
        if (--holders_[row] == 0) rows_.drop(row);
    }
    // To be called before p's row is changed.
    void changes(Process p) {
        if (current_[p] != none) release(current_[p]);
        current_[p] = none;
    }
    [[nodiscard]] bool changed(Process p) const { return current_[p] == none; }
    void merge(Process into, std::uint32_t row) { rows_.merge(into, row); }
    // Whether the row has news for p.
    [[nodiscard]] bool news(Process p, std::uint32_t row) const { return rows_.greater_somewhere(row, p); }
    [[nodiscard]] const std::int32_t* row(std::uint32_t row) const { return rows_.row(row); }
    // Calls `visit` for each row that a process or a message has.
    template <class Visit>
    void each_row(Visit visit) const {
        for (Process p = 0; p < current_.size(); ++p) visit(rows_.row(p));
        for (std::uint32_t row = static_cast<std::uint32_t>(current_.size()); row < holders_.size(); ++row)
            if (holders_[row] != 0) visit(rows_.row(row));
    }

  private:
    Rows rows_;                           // the first n are the processes'
    std::vector<std::uint32_t> current_;  // the copy of p's row, as long as it is the same
    std::vector<std::uint32_t> holders_;  // of each copy: messages, and its process
};

class FdasTogether final : public Together {
  public:
    explicit FdasTogether(Process processes);
    void take_checkpoint(Process p) override;
    std::size_t send(Process from, Process to, std::uint32_t slot) override;
    bool receive(Process to, std::uint32_t slot) override;
    void deliver(Process to, std::uint32_t slot) override;
    std::vector<std::uint8_t> piggyback(std::uint32_t slot) const override;

  private:
    Knowledge dates_;  // tdv
    std::vector<bool> sent_;
    std::vector<std::uint32_t> travelling_;  // by slot
};

// Bhmr. Its matrix is never made: process j is in the row of process l that i knows iff there is something in
// i's causal past that j did in its knowledge of the interval of l that is the last one i knows of. So the
// row follows from how much of each j is in i's past, and from what j knew then: a row of vectors instead of
// a matrix. That j is in l's row is asked only of those to whom i has sent since its last checkpoint.
class BhmrTogether final : public Together {
  public:
    // `collect_at`: how many vectors to keep before those are looked for that nobody can ask for any more.
    explicit BhmrTogether(Process processes, std::size_t collect_at = 4096);
    void take_checkpoint(Process p) override;
    std::size_t send(Process from, Process to, std::uint32_t slot) override;
    bool receive(Process to, std::uint32_t slot) override;
    void deliver(Process to, std::uint32_t slot) override;
    std::vector<std::uint8_t> piggyback(std::uint32_t slot) const override;
    [[nodiscard]] std::size_t kept() const { return dates_.used(); }  // vectors

  private:
    // What a process knew when it sent: number `first` of its states that were sent, and those behind it.
    struct History {
        std::uint32_t first = 1;
        std::vector<std::uint32_t> rows;  // in dates_; `none`: nobody can ask for it
    };
    struct Travelling {
        Process from = none;
        std::uint32_t dates = none, seen = none;
    };
    [[nodiscard]] std::uint32_t dates_of(Process p, std::int32_t state) const {
        return history_[p].rows[static_cast<std::uint32_t>(state) - history_[p].first];
    }
    void collect();

    // Of each process and of its states that were sent, for each k twice the interval of k that it knows of
    // (tdv[k]), and 1 more if not pure[k]: the greater of two such numbers is what Bhmr::deliver() leaves.
    Rows dates_;
    Knowledge seen_;  // for each k the number of k's last state that is in the past
    std::vector<History> history_;
    std::vector<std::vector<Process>> sent_to_;  // since the last checkpoint
    std::vector<bool> has_sent_to_;              // the same, n by n
    std::vector<Travelling> travelling_;         // by slot
    std::size_t collect_at_, at_least_;
};

// SenderLogging. Row j of what is known of receipts is written by j alone, and so is ckpt_vc[j]: what a
// process knows of j is which of j's states it has heard of last.
class LoggingTogether final : public Together {
  public:
    explicit LoggingTogether(Process processes);
    void take_checkpoint(Process p) override;
    std::size_t send(Process from, Process to, std::uint32_t slot) override;
    bool receive(Process, std::uint32_t) override { return false; }
    void deliver(Process to, std::uint32_t slot) override;
    std::size_t log_size(Process p) const override { return logs_[p].kept.size(); }
    LoggedCheckpoint checkpoint(Process p) const override;
    std::vector<std::uint8_t> piggyback(std::uint32_t slot) const override;

  private:
    struct Channel {
        std::uint32_t sent = 0;
        std::vector<std::int32_t> received_in;  // the receiver's state behind each receipt
    };
    struct Logged {
        LoggedMessage message;
        std::uint32_t channel = none;
    };
    struct Log {
        std::vector<Logged> open;         // since the last checkpoint
        std::vector<LoggedMessage> kept;  // of the last checkpoint
    };
    struct Travelling {
        std::uint32_t seen = none, channel = none;
    };
    [[nodiscard]] const Channel& channel(Process from, Process to) const {
        return channels_[numbers_.get(from, to)];
    }
    void next_state(Process p) {
        seen_.changes(p);
        ++seen_.of(p)[p];
    }

    Knowledge seen_;  // for each j the number of j's last state that is in the past
    PerChannel<std::uint32_t> numbers_;
    std::vector<Channel> channels_;                    // those that were used; 0 stands for all others
    std::vector<std::vector<std::int32_t>> taken_in_;  // states that are checkpoints
    std::vector<Log> logs_;
    std::vector<Travelling> travelling_;  // by slot
};

}  // namespace cairn::causality
