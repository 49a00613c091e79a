// Checkpoint and communication patterns, and the relation by which they are judged: zigzag paths (
// Raynal 2013, chapter 8; Netzer, Xu 1995).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "causality/computation.h"

namespace cairn::causality {

// The x-th checkpoint of a process, from 0. The initial and the final state of a process are checkpoints.
struct Checkpoint {
    Process process = none;
    std::uint32_t number = 0;
    auto operator<=>(const Checkpoint&) const = default;
};

// One checkpoint of each process.
using GlobalCheckpoint = std::vector<std::uint32_t>;

// What happened, each message's send before its receive. Interval x of a process (from 1) lies between its
// checkpoints x-1 and x.
class Pattern {
  public:
    enum class What : std::uint8_t { basic, forced, send, receive };
    struct Step {
        std::uint32_t what_process;  // What in the two lowest bits
        std::uint32_t message;       // of a send and a receive
        [[nodiscard]] What what() const { return static_cast<What>(what_process & 3U); }
        [[nodiscard]] Process process() const { return what_process >> 2; }
    };

    explicit Pattern(Process processes) : intervals_(processes, 1) {}

    // What the process of the checkpoint does from here on belongs to the next interval. Its number.
    std::uint32_t checkpoint(Process process, bool forced = false);
    // A message: one send and then one receive, or none. A collective operation is a message of several
    // sends, then several receives.
    std::uint32_t message() { return messages_++; }
    void send(Process process, std::uint32_t message);
    void receive(Process process, std::uint32_t message);
    std::uint32_t send(Process process) {
        const std::uint32_t made = message();
        send(process, made);
        return made;
    }

    [[nodiscard]] Process processes() const { return static_cast<Process>(intervals_.size()); }
    [[nodiscard]] std::span<const Step> steps() const { return steps_; }
    [[nodiscard]] std::uint32_t messages() const { return messages_; }
    // Of a process: initial and final states counted; the last one's number is intervals().
    [[nodiscard]] std::uint32_t checkpoints(Process process) const { return intervals_[process] + 1; }
    [[nodiscard]] std::uint32_t intervals(Process process) const { return intervals_[process]; }
    [[nodiscard]] Checkpoint final(Process process) const { return {process, intervals_[process]}; }
    void reserve(std::size_t steps) { steps_.reserve(steps); }

  private:
    std::vector<Step> steps_;
    std::vector<std::uint32_t> intervals_;
    std::uint32_t messages_ = 0;
};

// The pattern of a trace. `events`, if given, is filled with the trace's event for each step.
[[nodiscard]] Pattern pattern_of(const Computation& computation, std::vector<Index>* events = nullptr);

// The rollback-dependency graph: a node for each interval, edges to the process's next interval and along
// messages. Its paths are the zigzag paths: c zigzag d iff from the interval behind c a path leads to the one
// before d, or an earlier one of d's process. Undelivered messages make no edge. Linear in time and memory:
// with S checkpoints and M messages all functions are O(S + M) unless they say otherwise.
class Zigzag {
  public:
    explicit Zigzag(const Pattern& pattern);

    [[nodiscard]] Process processes() const { return static_cast<Process>(first_.size() - 1); }
    [[nodiscard]] std::uint32_t intervals(Process p) const { return first_[p + 1] - first_[p]; }

    [[nodiscard]] bool zigzag(Checkpoint from, Checkpoint to) const;
    // It zigzags to itself: no consistent global checkpoint has it. O(1).
    [[nodiscard]] bool useless(Checkpoint c) const;
    [[nodiscard]] std::vector<Checkpoint> useless() const;
    [[nodiscard]] bool z_cycle_free() const;
    // Messages of a shortest zigzag path, in its order; nothing if there is none, and for what program order
    // alone does.
    [[nodiscard]] std::vector<std::uint32_t> path(Checkpoint from, Checkpoint to) const;

    // Theorem 9: whether a consistent global checkpoint has all of these. At most one of each process.
    [[nodiscard]] bool extends(std::span<const Checkpoint> set) const;
    // The smallest and the largest one that do; nothing if none does.
    [[nodiscard]] std::optional<GlobalCheckpoint> smallest(std::span<const Checkpoint> set) const;
    [[nodiscard]] std::optional<GlobalCheckpoint> largest(std::span<const Checkpoint> set) const;
    [[nodiscard]] bool consistent(const GlobalCheckpoint& global) const;

    // Theorem 11's dates (first checkpoints 0, else one more than the greatest date that zigzags to it), of
    // all checkpoints of process 0, then 1, ...; nothing if there is a Z-cycle (theorem 10).
    [[nodiscard]] std::optional<std::vector<std::uint32_t>> dates() const;
    // Where checkpoints begin in it.
    [[nodiscard]] std::uint32_t date_index(Checkpoint c) const {
        return first_[c.process] + c.process + c.number;
    }
    // Theorem 11: each process's last checkpoint with a date not above this one.
    [[nodiscard]] GlobalCheckpoint of_date(std::span<const std::uint32_t> dates, std::uint32_t date) const;

    // --- recovery (recovery.cpp)

    struct Line {
        GlobalCheckpoint line;
        std::uint32_t undone =
            0;  // checkpoints that are given up, of all processes, final states of failed ones apart
        std::uint32_t most_undone = 0;  // of one process
        std::uint32_t rounds =
            0;  // length of the domino effect: messages on the longest of the shortest chains
        std::uint32_t to_start = 0;  // processes that begin anew
    };
    // The largest consistent global checkpoint when these processes have lost their final states.
    [[nodiscard]] Line recovery_line(std::span<const Process> failed) const;

    // For each process: which checkpoints some recovery line may still need, whatever happens later and
    // whoever fails. All others can be thrown away. They are the recovery lines of single failures. O(n (S +
    // M)).
    [[nodiscard]] std::vector<std::vector<std::uint32_t>> needed() const;

  private:
    friend class ZigzagTable;
    using Node = std::uint32_t;

    [[nodiscard]] Node node(Process p, std::uint32_t interval) const { return first_[p] + interval - 1; }
    [[nodiscard]] Process process_of(Node node) const;
    [[nodiscard]] bool is_interval(Node node) const { return node < first_.back(); }
    [[nodiscard]] std::span<const Node> edges(Node node) const {
        return {edges_.data() + begin_[node], begin_[node + 1] - begin_[node]};
    }
    void connect(const Pattern& pattern);
    void find_components();
    [[nodiscard]] std::vector<std::uint32_t> reach(std::span<const Node> from,
                                                   std::vector<std::uint32_t>* depth) const;
    [[nodiscard]] std::vector<std::uint32_t> reach_back(std::span<const Node> from) const;
    [[nodiscard]] std::vector<std::uint32_t> reached_from(std::span<const Checkpoint> set) const;

    std::vector<Node> first_;  // of each process
    std::vector<Node> edges_, begin_, back_edges_, back_begin_;
    std::vector<std::uint32_t> message_;    // of each edge
    std::vector<std::uint32_t> component_;  // what a component leads to has smaller numbers
};

// For any number of questions: n numbers for each interval, made in O(n (S + M)).
class ZigzagTable {
  public:
    explicit ZigzagTable(const Zigzag& graph);
    [[nodiscard]] bool zigzag(Checkpoint from, Checkpoint to) const {
        return least(from, to.process) <= to.number;
    }
    // The first checkpoint of `process` that this one zigzags to; `none` if it is its process's last or there
    // is none.
    [[nodiscard]] std::uint32_t least(Checkpoint from, Process process) const {
        if (from.number >= graph_.intervals(from.process)) return none;
        return least_[std::size_t{graph_.component_[graph_.node(from.process, from.number + 1)]} * n_ +
                      process];
    }

  private:
    const Zigzag& graph_;
    std::size_t n_;
    std::vector<std::uint32_t> least_;  // by component
};

// The transitive dependence vectors (fig. 8.10) of all checkpoints: c_j^x causally precedes c iff x <
// c.tdv[j].
class DependenceVectors {
  public:
    explicit DependenceVectors(const Pattern& pattern);
    [[nodiscard]] std::span<const std::uint32_t> operator[](Checkpoint c) const {
        return {vectors_.data() + (std::size_t{first_[c.process]} + c.number) * n_, n_};
    }
    [[nodiscard]] bool precedes(Checkpoint a, Checkpoint b) const {
        return a.process == b.process ? a.number < b.number : a.number < (*this)[b][a.process];
    }

  private:
    std::size_t n_;
    std::vector<std::uint32_t> first_;
    std::vector<std::uint32_t> vectors_;
};

// Rollback-dependency trackability: each zigzag relation is doubled by a causal one. O(n (S + M)).
[[nodiscard]] bool trackable(const Pattern& pattern, const Zigzag& graph);
// A pair that isn't doubled.
[[nodiscard]] std::optional<std::pair<Checkpoint, Checkpoint>> hidden_dependency(const Pattern& pattern,
                                                                                 const Zigzag& graph);

}  // namespace cairn::causality
