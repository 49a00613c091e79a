#include "mpi/debug/world.h"

#include "mpi/debug/traces.h"

namespace cairn::mpi::debug {

World::World(const Computation& computation, const tool::Launch& launch, Bounds bounds, const Show& show,
             Images* images)
    : moves_(computation), images_(images), cut_(computation.processes()) {
    for (Process rank = 0; rank < computation.processes(); ++rank)
        histories_.push_back(std::make_unique<History>(
            static_cast<int>(rank), alone(launch, static_cast<int>(rank)), bounds, show, images));
}

Result<> World::go(State to) {
    Cut cut = moves_.all(to);
    if (auto done = histories_[to.rank]->go({to.position, moves_.within(cut, to.rank)}); !done) return done;
    cut_ = std::move(cut);
    focus_ = to.rank;
    return {};
}

Result<> World::stand_at(Cut cut) {
    if (auto done = histories_[focus_]->go({cut[focus_], moves_.within(cut, focus_)}); !done) return done;
    cut_ = std::move(cut);
    return {};
}

Result<History*> World::standing(Process rank) {
    CHECK_OK(histories_[rank]->go(spot(rank)));
    return histories_[rank].get();
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
