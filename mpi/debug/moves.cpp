#include "mpi/debug/moves.h"

#include <algorithm>

#include "mpi/tool/probes.h"

namespace cairn::mpi::debug {

using causality::Event;
using causality::Flag;
using causality::Kind;
using causality::Shape;

Moves::Moves(const Computation& computation) : c_(computation), clocks_(computation) {
    for (Process p = 0; p < c_.processes(); ++p) {
        auto& begins = begins_.emplace_back();
        for (Position i = 0; i < c_.size(p); ++i)
            if (!c_.event(c_.first(p) + i).has(Flag::joined)) begins.push_back(i);
    }
}

Cut Moves::all(State focus) const {
    if (focus.position == 0) return Cut(c_.processes());
    const Index last = c_.first(focus.rank) + focus.position - 1;
    return tool::with_probes(c_, clocks_, earliest_after(c_, clocks_, last));
}

bool Moves::within(const Cut& cut, Process rank) const {
    if (cut[rank] >= c_.size(rank)) return false;
    const Index next = c_.first(rank) + cut[rank];
    if (c_.event(next).has(Flag::joined)) return true;
    // One that is non-blocking has been left by others as soon as it has begun here.
    if (c_.event(next).kind != Kind::collective || c_.event(next).request != 0) return false;
    const auto& group = c_.group(next);
    return group.shape == Shape::all &&
           std::any_of(group.members.begin(), group.members.end(), [&](const Index member) {
               return c_.id(member).position < cut[c_.id(member).process];
           });
}

std::uint64_t Moves::call_at(State state) const {
    const auto& begins = begins_[state.rank];
    return static_cast<std::uint64_t>(std::lower_bound(begins.begin(), begins.end(), state.position) -
                                      begins.begin());
}

State Moves::behind(Process rank, std::uint64_t call) const {
    if (call == 0) return {rank, 0};
    return {rank, call < calls(rank) ? begin(rank, call + 1) : c_.size(rank)};
}

State Moves::step(State from, std::uint64_t count) const {
    if (from.position == c_.size(from.rank)) return from;
    std::uint64_t call = call_at(from);
    // In the middle of a call its end is the first step.
    if (behind(from.rank, call).position == from.position) ++call;
    return behind(from.rank, std::min(call + count - 1, calls(from.rank)));
}

State Moves::step_back(State from, std::uint64_t count) const {
    const std::uint64_t call = call_at(from);
    return behind(from.rank, call > count ? call - count : 0);
}

Result<State> Moves::find(Process rank, const std::string& at) const {
    if (at == "end") return behind(rank, calls(rank));
    if (at == "0") return State{rank, 0};
    const auto spot = TRY(tool::read_spot(at, c_, rank));
    if (spot.event > calls(rank))
        return fail_code(ExitCode::refused, "rank {} has {} events", rank, calls(rank));
    if (spot.event != 0) return behind(rank, spot.event);
    std::uint64_t seen = 0;
    for (std::uint64_t call = 1; call <= calls(rank); ++call)
        if (spot.places.contains(c_.event(c_.first(rank) + begin(rank, call)).place) && ++seen == spot.count)
            return behind(rank, call);
    return fail_code(ExitCode::refused, "rank {} passes {} {} times", rank, spot.name, seen);
}

std::optional<State> Moves::next(State from, const std::set<std::uint32_t>& places) const {
    const auto& begins = begins_[from.rank];
    for (auto at = std::lower_bound(begins.begin(), begins.end(), from.position); at != begins.end(); ++at)
        if (places.contains(c_.event(c_.first(from.rank) + *at).place))
            return behind(from.rank, static_cast<std::uint64_t>(at - begins.begin()) + 1);
    return std::nullopt;
}

std::optional<State> Moves::previous(State from, const std::set<std::uint32_t>& places) const {
    for (std::uint64_t call = call_at(from); call > 0; --call) {
        const State state = behind(from.rank, call);
        if (state.position >= from.position) continue;
        if (places.contains(c_.event(c_.first(from.rank) + begin(from.rank, call)).place)) return state;
    }
    return std::nullopt;
}

Result<State> Moves::forward(State from, Index& sent) const {
    const std::uint64_t call = call_at(from);
    const Index first = c_.first(from.rank);
    sent = causality::none;
    const auto is_send = [&](Position i) { return c_.event(first + i).kind == Kind::send; };
    if (call > 0)
        for (Position i = begin(from.rank, call); i < from.position; ++i)
            if (is_send(i)) sent = first + i;
    const State next = step(from, 1);
    for (Position i = from.position; i < next.position && sent == causality::none; ++i)
        if (is_send(i)) sent = first + i;
    if (sent == causality::none)
        return fail_code(
            ExitCode::refused,
            "rank {} has sent nothing in the call behind which it stands, and sends nothing in the "
            "next one: step to a send first",
            from.rank);
    const Index receipt = c_.partner(sent);
    if (receipt == causality::none)
        return fail_code(ExitCode::refused, "nobody receives what is sent there: {}", text(sent));
    const State at_receipt = at(receipt);
    return behind(at_receipt.rank, call_at(at_receipt));
}

bool Moves::brings_something(Index index) const {
    const Event& event = c_.event(index);
    if (event.kind == Kind::receive) return true;
    if (event.kind != Kind::collective) return false;
    const Process self = c_.process_of(index);
    if (event.shape == Shape::from_root) return event.peer != self;
    return event.shape == Shape::all || event.peer == self;
}

std::optional<Cause> Moves::cause(State state) const {
    for (Position i = state.position; i > 0; --i) {
        const Index index = c_.first(state.rank) + i - 1;
        if (brings_something(index)) return Cause{index, c_.partner(index)};
    }
    return std::nullopt;
}

State Moves::at(Index event) const {
    const auto id = c_.id(event);
    return {id.process, id.position + 1};
}

Result<State> Moves::back(State from, Index& sent) const {
    sent = causality::none;
    for (Position i = from.position; i > 0 && sent == causality::none; --i) {
        const Index index = c_.first(from.rank) + i - 1;
        if (c_.event(index).kind == Kind::receive) sent = c_.partner(index);
    }
    if (sent == causality::none)
        return fail_code(ExitCode::refused, "rank {} has received no message up to here", from.rank);
    const auto id = c_.id(sent);
    const auto made = cause({id.process, id.position});
    if (!made) return State{id.process, 0};
    // Its call is over, unless it is the one that sends.
    const State receipt = at(made->receipt);
    const State over = behind(receipt.rank, call_at(receipt));
    return over.position <= id.position ? over : receipt;
}

std::vector<Index> Moves::in_transit(const Cut& cut) const {
    std::vector<Index> found;
    for (Process p = 0; p < c_.processes(); ++p)
        for (Position i = 0; i < cut[p]; ++i) {
            const Index index = c_.first(p) + i;
            if (c_.event(index).kind != Kind::send) continue;
            const Index receipt = c_.partner(index);
            if (receipt == causality::none || c_.id(receipt).position >= cut[c_.id(receipt).process])
                found.push_back(index);
        }
    return found;
}

std::string Moves::text(Index event) const {
    const auto id = c_.id(event);
    const std::string place = causality::describe(c_.place(event));
    return fmt::format("rank {} event {}: {}{}", id.process, call_at(at(event)),
                       causality::describe(c_.event(event)), place.empty() ? "" : ", " + place);
}

}  // namespace cairn::mpi::debug
