// The ranks of a record with contents, each run alone: when somebody looks at it, and no farther than the
// state in which all are.
#pragma once

#include <memory>
#include <vector>

#include "mpi/debug/history.h"
#include "mpi/debug/world.h"

namespace cairn::mpi::debug {

class AloneWorld : public World {
  public:
    // `images`: may be null; outlives it.
    AloneWorld(const Computation& computation, Cut beginning, const tool::Launch& launch, Bounds bounds,
               const Show& show, Images* images);
    [[nodiscard]] const Images* images() const { return images_; }

    // Everybody to this consistent cut, and nobody runs before somebody looks.
    using World::assume;
    // The rank begins to run to where it stands in this state; standing() waits for it.
    [[nodiscard]] Result<> set_out(Process rank) { return histories_[rank]->set_out(spot(rank)); }
    // The rank, standing where it stands in this state.
    [[nodiscard]] Result<History*> standing(Process rank);
    [[nodiscard]] History& history(Process rank) { return *histories_[rank]; }

    [[nodiscard]] Result<Stand> stand(Process rank) override;
    [[nodiscard]] Result<Looked> look_into(Process rank) override;
    [[nodiscard]] std::vector<Position> checkpointed(Process rank) override;

  private:
    // Nobody else runs before somebody looks.
    [[nodiscard]] Result<Cut> bring(Cut cut, Process focus) override;

    Images* images_;
    std::vector<std::unique_ptr<History>> histories_;
};

}  // namespace cairn::mpi::debug
