#include "mpi/debug/world.h"

namespace cairn::mpi::debug {

State World::step_back(State from, std::uint64_t calls) const {
    const State to = moves_.step_back(from, calls);
    return to.position < beginning_[from.rank] ? first(from.rank) : to;
}

std::optional<State> World::previous(State from, const std::set<std::uint32_t>& places) const {
    const auto to = moves_.previous(from, places);
    return to && to->position < beginning_[from.rank] ? std::nullopt : to;
}

Result<> World::go(State to) {
    if (to.position < beginning_[to.rank])
        return fail_code(ExitCode::refused,
                         "rank {} can't go back behind event {}: what was before has been removed from the "
                         "record (cairn mpi trim)",
                         to.rank, moves_.call_at({to.rank, beginning_[to.rank]}));
    // Consistent, as both are (causality/cuts.h).
    cut_ = TRY(bring(causality::join(moves_.all(to), beginning_), to.rank));
    focus_ = to.rank;
    return {};
}

Result<> World::stand_at(const Cut& cut) {
    cut_ = TRY(bring(causality::join(cut, beginning_), focus_));
    return {};
}

std::string World::text(Process rank) const {
    const State here = state(rank);
    const std::uint64_t call = moves_.call_at(here);
    std::string text = fmt::format("rank {}, event {} of {}", rank, call, moves_.calls(rank));
    if (here.position == 0) return text + ": before the first";
    const Index last = moves_.computation().first(rank) + here.position - 1;
    const std::string place = causality::describe(moves_.computation().place(last));
    const std::string event = causality::describe(moves_.computation().event(last));
    text += fmt::format(": {}{}", place, event.empty() || event == "internal" ? "" : ", " + event);
    if (moves_.behind(rank, call).position != here.position)
        text += ", in the call";
    else if (moves_.within(cut_, rank))
        text += ", then in the next one, which others have left";
    return text;
}

}  // namespace cairn::mpi::debug
