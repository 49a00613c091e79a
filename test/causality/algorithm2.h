// The search for places as Mashechkin and Smirnov print it (2006, algorithm 2): backtracking over the gaps of
// one process after the other, where a branch is cut if it can't be completed (their statements 3 and 4, the
// latter in the reading that loses no place). The oracle of the tests and the yardstick of the bench:
// exponential.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "causality/cuts.h"

namespace cairn::test {

class Algorithm2 {
  public:
    explicit Algorithm2(const causality::Computation& computation) : c_(computation), clocks_(computation) {}

    // Calls `visit` with each place until it says false. `steps` counts gaps that were tried.
    void run(const std::function<bool(const causality::Cut&)>& visit) {
        cut_.assign(c_.processes(), 0);
        visit_ = &visit;
        stop_ = false;
        descend(0);
    }
    std::uint64_t steps = 0;
    std::uint64_t most_steps = UINT64_MAX;
    [[nodiscard]] bool gave_up() const { return steps >= most_steps; }

  private:
    using Process = causality::Process;
    using Position = causality::Position;
    using Index = causality::Index;
    using Ranks = std::set<Process>;
    struct Operation {
        Ranks starts1, starts2, completes1, completes2;
    };

    void descend(Process p) {
        if (p == c_.processes()) {
            if (sufficient()) stop_ = stop_ || !(*visit_)(cut_);
            return;
        }
        for (Position gap = 0; gap <= c_.size(p) && !stop_; ++gap) {
            if (++steps >= most_steps) stop_ = true;
            if ((gap > 0 && nondeterministic(p, gap - 1)) || (gap < c_.size(p) && nondeterministic(p, gap)))
                continue;
            cut_[p] = gap;
            if (necessary(p) && completable(p + 1)) descend(p + 1);
        }
        cut_[p] = 0;
    }

    [[nodiscard]] bool nondeterministic(Process p, Position at) const {
        return c_.event(c_.first(p) + at).has(causality::Flag::nondeterministic);
    }

    // Statement 3: no e_i happens after any ê_k, for the processes up to `last`.
    [[nodiscard]] bool necessary(Process last) const {
        for (Process i = 0; i <= last; ++i)
            for (Process k = 0; k <= last; ++k) {
                if (i == k || cut_[i] == 0 || cut_[k] == c_.size(k)) continue;
                if (clocks_.before(c_.first(k) + cut_[k], c_.first(i) + cut_[i] - 1)) return false;
            }
        return true;
    }

    // What this action says about its operation: who starts, who completes.
    void add(Index e, std::map<std::uint64_t, Operation>& operations) const {
        using causality::Kind;
        using causality::Shape;
        const auto& event = c_.event(e);
        const Process t = c_.process_of(e);
        if (event.kind == Kind::send) {
            Operation& operation = operations[e];
            operation.starts1.insert(t);
            operation.starts2.insert(event.peer);
        } else if (event.kind == Kind::receive) {
            Operation& operation = operations[c_.partner(e)];
            operation.completes1.insert(event.peer);
            operation.completes2.insert(t);
        } else if (event.kind == Kind::collective) {
            const auto& group = c_.group(e);
            Operation& operation = operations[(std::uint64_t{1} << 32) + c_.group_number(e)];
            Ranks members;
            for (Process p = 0; p < c_.processes(); ++p) members.insert(p);
            for (const auto& each : c_.communicators())
                if (each.id == group.communicator) members = Ranks(each.members.begin(), each.members.end());
            Ranks others = members;
            others.erase(event.peer);
            if (event.shape == Shape::all) {
                operation.starts1.insert(t);
                operation.starts2.insert(members.begin(), members.end());
                operation.completes1.insert(members.begin(), members.end());
                operation.completes2.insert(t);
            } else if (event.shape == Shape::from_root) {
                if (t == event.peer) {
                    operation.starts1.insert(t);
                    operation.starts2.insert(others.begin(), others.end());
                } else {
                    operation.completes1.insert(event.peer);
                    operation.completes2.insert(t);
                }
                // An operation of one is complete.
                if (others.empty()) operation.completes1.insert(t);
            } else {
                // Gather: the mirror of Bcast; those who start are all but the root, which completes.
                if (t == event.peer) {
                    operation.completes1.insert(others.begin(), others.end());
                    operation.completes2.insert(t);
                    if (others.empty()) operation.starts2.insert(t);
                } else {
                    operation.starts1.insert(t);
                    operation.starts2.insert(event.peer);
                }
            }
        }
    }

    // Statement 4: no operation in the causal past of e_1..e_k lacks an action of the processes 1..k.
    [[nodiscard]] bool completable(Process count) const {
        causality::Cut past(c_.processes()), clock(c_.processes());
        for (Process p = 0; p < count; ++p) {
            if (cut_[p] == 0) continue;
            clocks_.clock(c_.first(p) + cut_[p] - 1, clock);
            past = causality::join(past, clock);
        }
        std::map<std::uint64_t, Operation> operations;
        for (Process p = 0; p < c_.processes(); ++p)
            for (Position at = 0; at < past[p]; ++at) add(c_.first(p) + at, operations);
        for (const auto& [number, each] : operations)
            if (lacks(each.completes1, each.starts1, count) || lacks(each.starts2, each.completes2, count))
                return false;
        return true;
    }
    static bool lacks(const Ranks& needed, const Ranks& have, Process count) {
        for (const Process p : needed)
            if (p < count && !have.contains(p)) return true;
        return false;
    }

    [[nodiscard]] bool sufficient() const {
        std::map<std::uint64_t, Operation> operations;
        for (Process p = 0; p < c_.processes(); ++p)
            for (Position at = 0; at < cut_[p]; ++at) add(c_.first(p) + at, operations);
        for (const auto& [number, each] : operations)
            if (each.starts1 != each.completes1 || each.starts2 != each.completes2) return false;
        return true;
    }

    const causality::Computation& c_;
    causality::ClockTable clocks_;
    causality::Cut cut_;
    const std::function<bool(const causality::Cut&)>* visit_ = nullptr;
    bool stop_ = false;
};

}  // namespace cairn::test
