#include "mpi/debug/world.h"

#include "mpi/debug/traces.h"

namespace cairn::mpi::debug {

World::World(const Computation& computation, const tool::Launch& launch, Bounds bounds, const Show& show)
    : moves_(computation), cut_(computation.processes()) {
    for (Process rank = 0; rank < computation.processes(); ++rank)
        histories_.push_back(std::make_unique<History>(static_cast<int>(rank),
                                                       alone(launch, static_cast<int>(rank)), bounds, show));
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

}  // namespace cairn::mpi::debug
