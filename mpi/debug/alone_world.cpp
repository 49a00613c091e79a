#include "mpi/debug/alone_world.h"

#include "mpi/debug/traces.h"

namespace cairn::mpi::debug {

AloneWorld::AloneWorld(const Computation& computation, Cut beginning, const tool::Launch& launch,
                       Bounds bounds, const Show& show, Images* images)
    : World(computation, std::move(beginning)), images_(images) {
    for (Process rank = 0; rank < computation.processes(); ++rank)
        histories_.push_back(std::make_unique<History>(
            static_cast<int>(rank), alone(launch, static_cast<int>(rank)), bounds, show, images));
}

Result<Cut> AloneWorld::bring(Cut cut, Process focus) {
    CHECK_OK(histories_[focus]->go({cut[focus], moves().within(cut, focus)}));
    return cut;
}

Result<History*> AloneWorld::standing(Process rank) {
    CHECK_OK(histories_[rank]->go(spot(rank)));
    return histories_[rank].get();
}

Result<World::Stand> AloneWorld::stand(Process rank) {
    History* history = TRY(standing(rank));
    return Stand{.event = history->report().event,
                 .position = history->report().position,
                 .within = history->spot().within,
                 .pid = history->pid(),
                 .frame = history->report().frame,
                 .stack = TRY(history->stack())};
}

Result<World::Looked> AloneWorld::look_into(Process rank) {
    History* history = TRY(standing(rank));
    auto copy = TRY(history->copy());
    const pid_t pid = copy.pid();
    return Looked{std::move(copy), pid};
}

std::vector<Position> AloneWorld::checkpointed(Process rank) {
    std::vector<Position> positions;
    for (const auto& each : history(rank).checkpoints())
        positions.push_back(static_cast<Position>(each.spot.position));
    return positions;
}

}  // namespace cairn::mpi::debug
