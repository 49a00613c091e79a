// What the parts of lint work on.
#pragma once

#include <map>
#include <tuple>

#include "causality/computation.h"
#include "causality/lint/lint.h"
#include "causality/order.h"

namespace cairn::causality {

struct LintLoaded {
    explicit LintLoaded(Process processes) : trace(processes) {}
    MemoryTrace trace;
    bool tells = false;  // receives say what they asked for, messages how long they are
    std::map<std::uint32_t, const Communicator*> communicators;
    std::vector<Process> everybody;

    [[nodiscard]] const std::vector<Process>& members(std::uint32_t communicator) const {
        const auto found = communicators.find(communicator);
        return found == communicators.end() ? everybody : found->second->members;
    }
    [[nodiscard]] const Place& place(std::uint32_t number) const { return trace.places()[number]; }
};

// Findings with the same fault at the same places are one, with a number.
class Findings {
  public:
    explicit Findings(const LintLoaded& loaded) : loaded_(loaded) {}
    // `text` is called for the first of them.
    template <class F>
    void add(Fault fault, std::vector<Spot> spots, const F& text, std::uint64_t count = 1) {
        std::vector<std::uint64_t> key = {static_cast<std::uint64_t>(fault)};
        for (const Spot& each : spots)
            key.push_back(each.place != 0 ? each.place : std::uint64_t{1} << 32 | each.process);
        const auto [found, is_new] = known_.try_emplace(std::move(key), all_.size());
        if (is_new)
            all_.push_back({fault, std::move(spots), text(), count});
        else
            all_[found->second].count += count;
    }
    // One by itself.
    void add_alone(Finding finding) { all_.push_back(std::move(finding)); }
    // "rank 3, event 17, MPI_Recv at solver.c:88 (relax)"
    [[nodiscard]] std::string text(const Spot& spot) const;
    [[nodiscard]] std::vector<Finding> take() { return std::move(all_); }

  private:
    const LintLoaded& loaded_;
    std::map<std::vector<std::uint64_t>, std::size_t> known_;
    std::vector<Finding> all_;
};

// Before the order is known. Collectives that don't fit are taken out of the trace, with all behind them on
// their communicator: they order nothing.
void find_collectives(LintLoaded& loaded, Findings& into);
void find_deadlock(const LintLoaded& loaded, Findings& into);
void find_requests(const LintLoaded& loaded, Findings& into);
void find_leaks(const LintLoaded& loaded, Findings& into);
// Messages: with the trace in order.
void find_messages(const LintLoaded& loaded, const Computation& computation, Findings& into);
void find_races(const LintLoaded& loaded, const Computation& computation, Findings& into);

// Each message that a receive, or a probe that found one, could have had instead of its own: the rest of the
// run up to there being as it was.
struct Race {
    Index receive, got, other;  // the event that says what it got; two sends. `got` is none of a probe whose
                                // message was never sent, as far as the trace says
    Index posted;               // of a receive with a request where that was opened, else `receive`
    bool operator==(const Race&) const = default;
    auto operator<=>(const Race&) const = default;
};
[[nodiscard]] std::vector<Race> races_of(const Computation& computation, bool tells);

}  // namespace cairn::causality
