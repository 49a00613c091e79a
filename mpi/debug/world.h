// All ranks of a record at one state of the computation, with one of them in focus. A rank is run when
// somebody looks at it, and no farther than that state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mpi/debug/history.h"
#include "mpi/debug/moves.h"

namespace cairn::mpi::debug {

class World {
  public:
    // `images`: may be null; outlives it.
    World(const Computation& computation, const tool::Launch& launch, Bounds bounds, const Show& show,
          Images* images);
    [[nodiscard]] const Images* images() const { return images_; }

    [[nodiscard]] const Moves& moves() const { return moves_; }
    [[nodiscard]] Process ranks() const { return static_cast<Process>(histories_.size()); }
    [[nodiscard]] Process focus() const { return focus_; }
    [[nodiscard]] const Cut& cut() const { return cut_; }
    [[nodiscard]] State state(Process rank) const { return {rank, cut_[rank]}; }
    [[nodiscard]] Spot spot(Process rank) const { return {cut_[rank], moves_.within(cut_, rank)}; }

    // "rank 2, event 5 of 17: MPI_Recv at heat.c:33 (exchange), receive from 1".
    [[nodiscard]] std::string text(Process rank) const;

    // Nobody moves.
    void look_at(Process rank) { focus_ = rank; }
    // This rank, which is in focus then, runs there; all others stand in the first state that is consistent.
    // If it fails everybody stands where they stood.
    [[nodiscard]] Result<> go(State to);
    // Everybody to this consistent cut; nobody runs before somebody looks, but for the focus.
    [[nodiscard]] Result<> stand_at(Cut cut);
    // The rank, standing where it stands in this state.
    [[nodiscard]] Result<History*> standing(Process rank);
    [[nodiscard]] History& history(Process rank) { return *histories_[rank]; }

  private:
    Moves moves_;
    Images* images_;
    std::vector<std::unique_ptr<History>> histories_;
    Process focus_ = 0;
    Cut cut_;
};

}  // namespace cairn::mpi::debug
