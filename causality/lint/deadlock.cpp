// Who waits for whom when the trace ends. A process that may still go on is one that stands in no call that
// waits, or whose wait somebody who may go on can end. The others are deadlocked.
#include <algorithm>
#include <optional>

#include "causality/lint/loaded.h"
#include "causality/trace_format.h"

namespace cairn::causality {
namespace {

// One thing that a process waits for: that somebody of `whom` does something (any), or all of them do.
struct Need {
    std::vector<Process> whom;
    bool any = false;
    bool met = false;  // it is there already
};
struct Wait {
    std::vector<Need> needs;
    bool any = false;  // one of them is enough
};

// What is at the processes when the trace ends: messages on their way, receives that are posted.
class AtTheEnd {
  public:
    explicit AtTheEnd(const LintLoaded& loaded) : loaded_(loaded), of_(loaded.trace.processes()) {
        std::map<Channel, std::uint64_t> received;
        for (Process p = 0; p < of_.size(); ++p)
            for (const Event& event : loaded.trace.events(p))
                if (event.kind == Kind::receive) ++received[{event.peer, p, event.communicator, event.tag}];
        for (Process p = 0; p < of_.size(); ++p) read(p, received);
        for (Process p = 0; p < of_.size(); ++p) match(p);
    }
    [[nodiscard]] std::optional<Wait> wait_of(Process p) const;

  private:
    using Channel = std::tuple<Process, Process, std::uint32_t, std::int32_t>;
    struct Asking {
        std::uint32_t request;  // 0: the receive that the process stands in
        Process source;         // none: any
        std::uint32_t communicator;
        std::int32_t tag;
        bool any_tag;
        bool met = false;
    };
    struct Sent {
        Process to;
        std::uint32_t communicator;
        std::int32_t tag;
        std::uint32_t request;
        bool received = false;
    };
    struct State {
        std::vector<Sent> sent;  // those that were not received when the trace ends
        std::vector<Asking> asks;
        std::map<std::uint32_t, Event> open;                  // requests, by what opened them
        std::map<std::uint32_t, std::size_t> sent_by;         // request -> entry of `sent`
        std::map<std::uint32_t, std::uint64_t> operations;    // communicator -> begun
        std::map<std::uint32_t, std::uint64_t> operation_of;  // request -> which of its communicator's
    };
    void read(Process p, std::map<Channel, std::uint64_t>& received);
    void match(Process p);
    [[nodiscard]] Need receive(const Asking& asking, Process p) const;
    [[nodiscard]] Need collective(std::uint32_t communicator, std::uint64_t which, Process p) const;
    [[nodiscard]] Need request(std::uint32_t number, Process p) const;

    const LintLoaded& loaded_;
    std::vector<State> of_;
};

void AtTheEnd::read(Process p, std::map<Channel, std::uint64_t>& received) {
    State& state = of_[p];
    for (const Event& event : loaded_.trace.events(p)) {
        const bool begins_operation = (event.kind == Kind::collective && event.request == 0) ||
                                      (event.kind == Kind::post && event.has(Flag::for_collective));
        if (begins_operation) {
            const std::uint64_t which = ++state.operations[event.communicator];
            if (event.request != 0) state.operation_of[event.request] = which;
        }
        if (event.opens()) state.open[event.request] = event;
        if (event.closes()) state.open.erase(event.request);
    }
    const auto& standing = loaded_.trace.standing(p);
    if (standing && standing->event.kind == Kind::collective)
        ++state.operations[standing->event.communicator];
    for (const Event& event : loaded_.trace.events(p)) {
        if (event.kind != Kind::send) continue;
        auto& left = received[{p, event.peer, event.communicator, event.tag}];
        if (left > 0) {
            --left;
            continue;
        }
        if (event.request != 0) state.sent_by[event.request] = state.sent.size();
        state.sent.push_back({event.peer, event.communicator, event.tag, event.request});
    }
    for (const auto& [number, event] : state.open)
        if (event.kind == Kind::post && event.has(Flag::asks))
            state.asks.push_back(
                {number, event.peer, event.communicator, event.tag, event.has(Flag::any_tag)});
    if (standing && standing->event.kind == Kind::receive)
        state.asks.push_back({0, standing->event.peer, standing->event.communicator, standing->event.tag,
                              standing->event.has(Flag::any_tag)});
}

// Which of the messages on their way to it the receives of this process take, each the first that fits.
void AtTheEnd::match(Process p) {
    for (Asking& asking : of_[p].asks)
        for (Process from = 0; from < of_.size() && !asking.met; ++from) {
            if (asking.source != none && asking.source != from) continue;
            for (Sent& sent : of_[from].sent) {
                if (sent.received || sent.to != p || sent.communicator != asking.communicator ||
                    (!asking.any_tag && sent.tag != asking.tag))
                    continue;
                sent.received = asking.met = true;
                break;
            }
        }
}

Need AtTheEnd::receive(const Asking& asking, Process p) const {
    Need need{.whom = {}, .any = true, .met = asking.met};
    if (asking.source != none)
        need.whom = {asking.source};
    else
        for (const Process member : loaded_.members(asking.communicator))
            if (member != p) need.whom.push_back(member);
    return need;
}

Need AtTheEnd::collective(std::uint32_t communicator, std::uint64_t which, Process p) const {
    Need need;
    for (const Process member : loaded_.members(communicator)) {
        if (member == p || member >= of_.size()) continue;
        const auto begun = of_[member].operations.find(communicator);
        if (begun == of_[member].operations.end() || begun->second < which) need.whom.push_back(member);
    }
    need.met = need.whom.empty();
    return need;
}

Need AtTheEnd::request(std::uint32_t number, Process p) const {
    const State& state = of_[p];
    Need met{.whom = {}, .any = false, .met = true};
    const auto opened = state.open.find(number);
    if (opened == state.open.end()) return met;
    if (opened->second.kind == Kind::send) {
        const auto sent = state.sent_by.find(number);
        if (sent == state.sent_by.end() || state.sent[sent->second].received) return met;
        return {.whom = {state.sent[sent->second].to}};
    }
    if (opened->second.has(Flag::for_collective))
        return collective(opened->second.communicator, state.operation_of.at(number), p);
    for (const Asking& asking : state.asks)
        if (asking.request == number) return receive(asking, p);
    return met;
}

std::optional<Wait> AtTheEnd::wait_of(Process p) const {
    const auto& standing = loaded_.trace.standing(p);
    if (loaded_.trace.ended(p) || !standing) return std::nullopt;
    const State& state = of_[p];
    const Event& event = standing->event;
    Wait wait;
    if (event.kind == Kind::receive) {
        wait.needs = {receive(state.asks.back(), p)};
    } else if (event.kind == Kind::collective) {
        wait.needs = {collective(event.communicator, state.operations.at(event.communicator), p)};
    } else if (event.kind == Kind::send) {
        const bool waits =
            !state.sent.empty() && state.sent.back().to == event.peer && !state.sent.back().received;
        wait.needs = {{.whom = {event.peer}, .any = false, .met = !waits}};
    } else if (event.kind == Kind::complete) {
        for (const std::uint32_t number : standing->requests) wait.needs.push_back(request(number, p));
        wait.any = standing->any;
        // More requests than a trace keeps: whether these are enough isn't known.
        if (wait.needs.empty() || standing->requests.size() >= TailState::most_requests) return std::nullopt;
    } else {
        return std::nullopt;
    }
    return wait;
}

bool comes(const Need& need, const std::vector<bool>& goes_on) {
    if (need.met) return true;
    const auto can = [&](Process p) { return p < goes_on.size() && goes_on[p]; };
    return need.any ? std::any_of(need.whom.begin(), need.whom.end(), can)
                    : std::all_of(need.whom.begin(), need.whom.end(), can);
}

bool ends(const Wait& wait, const std::vector<bool>& goes_on) {
    const auto is_there = [&](const Need& need) { return comes(need, goes_on); };
    return wait.any ? std::any_of(wait.needs.begin(), wait.needs.end(), is_there)
                    : std::all_of(wait.needs.begin(), wait.needs.end(), is_there);
}

class Circles {
  public:
    Circles(const LintLoaded& loaded, Findings& into)
        : loaded_(loaded), into_(into), waits_(loaded.trace.processes()), goes_on_(waits_.size(), false) {
        const AtTheEnd state(loaded);
        for (Process p = 0; p < waits_.size(); ++p) {
            waits_[p] = state.wait_of(p);
            goes_on_[p] = !waits_[p] && !loaded.trace.ended(p);
        }
        for (bool more = true; more;) {
            more = false;
            for (Process p = 0; p < waits_.size(); ++p)
                if (waits_[p] && !goes_on_[p] && ends(*waits_[p], goes_on_)) goes_on_[p] = more = true;
        }
        for (Process p = 0; p < waits_.size(); ++p)
            if (stuck(p)) ++left_;
    }
    void find() {
        std::vector<Process> seen(waits_.size(), none);  // from where
        for (Process start = 0; start < waits_.size(); ++start) {
            Process p = start;
            while (p != none && stuck(p) && seen[p] == none) {
                seen[p] = start;
                p = next(p);
            }
            if (p != none && stuck(p) && seen[p] == start) circle(p);
        }
        for (Process p = 0; p < waits_.size(); ++p)
            if (stuck(p) && (next(p) == none || !stuck(next(p)))) dead_end(p);
        for (std::size_t i = 0; i < found_.size(); ++i) {
            if (i == 0 && left_ > 0)
                found_[i].text +=
                    fmt::format("; {} more {} for these", left_, left_ == 1 ? "rank waits" : "ranks wait");
            into_.add_alone(std::move(found_[i]));
        }
    }

  private:
    [[nodiscard]] bool stuck(Process p) const { return waits_[p] && !goes_on_[p]; }
    // One whom it waits for: one that is stuck rather than one that has ended.
    [[nodiscard]] Process next(Process p) const {
        Process ended = none;
        for (const Need& need : waits_[p]->needs) {
            if (comes(need, goes_on_)) continue;
            for (const Process whom : need.whom) {
                if (whom >= waits_.size() || goes_on_[whom]) continue;
                if (stuck(whom)) return whom;
                if (ended == none) ended = whom;
            }
        }
        return ended;
    }
    [[nodiscard]] Spot spot(Process p) const { return {p, none, loaded_.trace.standing(p)->event.place}; }
    // "rank 0, in MPI_Recv at a.c:3 (main), waits for rank 1"
    [[nodiscard]] std::string text(Process p) const {
        const Event& event = loaded_.trace.standing(p)->event;
        std::string what = into_.text(spot(p));
        std::string whom;
        std::size_t named = 0, all = 0;
        constexpr std::size_t most = 4;
        bool any = waits_[p]->any;
        for (const Need& need : waits_[p]->needs) {
            if (comes(need, goes_on_)) continue;
            any = any || (need.any && need.whom.size() > 1);
            for (const Process each : need.whom) {
                if (each < goes_on_.size() && goes_on_[each]) continue;
                if (++all <= most && ++named > 0) whom += (whom.empty() ? "" : ", ") + std::to_string(each);
            }
        }
        if (all > most) whom += ", ...";
        if (all == 0) return what + " waits for a message that nobody can send";
        what +=
            fmt::format(" waits for {}rank{} {}", any && all > 1 ? "any of " : "", all == 1 ? "" : "s", whom);
        if (event.kind == Kind::receive && !event.has(Flag::any_tag) && event.tag != 0)
            what += fmt::format(" (tag {})", event.tag);
        return what;
    }
    void circle(Process first) {
        Finding finding{.fault = Fault::deadlock, .spots = {}, .text = ""};
        constexpr std::size_t most = 16;
        std::size_t length = 0;
        Process p = first;
        do {
            finding.spots.push_back(spot(p));
            if (length < most) finding.text += (length > 0 ? "; " : "") + text(p);
            if (length == most) finding.text += "; ...";
            ++length;
            p = next(p);
        } while (p != first);
        if (length > 1) finding.text = fmt::format("a circle of {}: {}", length, finding.text);
        left_ -= length;
        found_.push_back(std::move(finding));
    }
    void dead_end(Process p) {
        const Process whom = next(p);
        --left_;
        found_.push_back(
            {.fault = Fault::deadlock,
             .spots = {spot(p)},
             .text = text(p) + (whom == none ? "" : fmt::format(", and rank {} has ended", whom))});
    }

    const LintLoaded& loaded_;
    Findings& into_;
    std::vector<std::optional<Wait>> waits_;
    std::vector<bool> goes_on_;
    std::size_t left_ = 0;
    std::vector<Finding> found_;
};

}  // namespace

void find_deadlock(const LintLoaded& loaded, Findings& into) {
    for (Process p = 0; p < loaded.trace.processes(); ++p)
        if (!loaded.trace.ended(p) && loaded.trace.standing(p)) return Circles(loaded, into).find();
}

}  // namespace cairn::causality
