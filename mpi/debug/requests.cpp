#include "mpi/debug/requests.h"

#include <map>
#include <sstream>

namespace cairn::mpi::debug {
namespace {

using causality::Event;
using causality::Flag;
using causality::Kind;
using causality::none;

bool completes_any(const std::string& call) {
    return call == "MPI_Waitany" || call == "MPI_Testany" || call == "MPI_Waitsome" || call == "MPI_Testsome";
}

struct Life {
    Index opened = none, closed = none;
};

// Of all requests of a rank, by their number.
std::map<std::uint32_t, Life> lives_of(const Computation& c, Process rank) {
    std::map<std::uint32_t, Life> lives;
    for (Index i = c.first(rank); i < c.first(rank) + c.size(rank); ++i) {
        const Event& event = c.event(i);
        if (event.opens()) lives[event.request] = {i, none};
        if (event.closes()) lives[event.request].closed = i;
    }
    return lives;
}

// What brings it to its end happens behind this event.
bool comes_behind(const Moves& moves, Index got, const Life& life) {
    const Computation& c = moves.computation();
    const Event& opened = c.event(life.opened);
    Index needed = none;
    if (opened.kind == Kind::post && life.closed != none && c.event(life.closed).kind == Kind::receive)
        needed = c.partner(life.closed);
    // A synchronous send is complete when its receive has begun.
    const std::string& call = c.place(life.opened).call;
    if (opened.kind == Kind::send && (call.contains("Issend") || call.contains("Start"))) {
        needed = c.partner(life.opened);
        if (needed == none) return true;
        if (c.id(needed).position == 0) return false;
        // A blocking one has begun behind the event before.
        --needed;
    }
    return needed != none && (needed == got || moves.before(got, needed));
}

std::string hindrance(const Computation& c, const Life& life) {
    if (c.event(life.opened).has(Flag::for_collective)) return "it is a collective operation";
    if (life.closed == none) return "it is never completed, so the record doesn't have what it brings";
    if (c.event(life.closed).has(Flag::cancelled)) return "it is cancelled";
    if (c.place(life.closed).call == "MPI_Request_free") return "it is given up";
    return "";
}

// Those that are open in this call and stay so.
std::vector<OtherRequest> left_open(const Moves& moves, const std::map<std::uint32_t, Life>& lives, Index got,
                                    Index behind) {
    const Computation& c = moves.computation();
    std::vector<OtherRequest> others;
    for (const auto& [number, life] : lives) {
        if (life.opened == none || life.opened >= got) continue;
        if (life.closed != none && life.closed < behind) continue;
        if (comes_behind(moves, got, life)) continue;
        others.push_back({.index = -1,
                          .request = number,
                          .opened = life.opened,
                          .closed = life.closed,
                          .hindrance = hindrance(c, life)});
    }
    return others;
}

// Those of them that the call has, with their places among its requests.
std::vector<OtherRequest> of_call(const std::string& offered, const std::vector<OtherRequest>& others) {
    std::vector<OtherRequest> found;
    std::istringstream in(offered);
    int index = 0;
    for (std::uint32_t number = 0; in >> index >> number;)
        for (const OtherRequest& each : others)
            if (each.request == number) found.emplace_back(each).index = index;
    return found;
}

}  // namespace

Result<std::optional<RequestChoice>> next_request_choice(History& history, const Moves& moves, State from,
                                                         Position limit) {
    const Computation& c = moves.computation();
    const auto lives = lives_of(c, from.rank);
    std::optional<History::Checkpoint> copy;
    for (std::uint64_t call = moves.call_at(from) + 1; call <= moves.calls(from.rank); ++call) {
        const Position begin = moves.begin(from.rank, call);
        if (begin > limit) break;
        const Index got = c.first(from.rank) + begin;
        if (!c.event(got).has(Flag::nondeterministic) || !c.event(got).closes()) continue;
        if (!completes_any(c.place(got).call)) continue;
        const State behind = moves.behind(from.rank, call);
        const auto others = left_open(moves, lives, got, c.first(from.rank) + behind.position);
        if (others.empty()) continue;
        if (!copy) copy = TRY(history.standing_copy());
        static_cast<void>(TRY(history.way_of(*copy, {begin, true})));
        if (!copy->process.there()) return fail("rank {} doesn't come to {}", from.rank, moves.text(got));
        CHECK_OK(copy->process.ask({.ask = Ask::offered}));
        const auto message = TRY(copy->process.hear());
        auto found = of_call(message.text, others);
        if (!found.empty()) return RequestChoice{call, got, std::move(found)};
    }
    return std::optional<RequestChoice>();
}

}  // namespace cairn::mpi::debug
