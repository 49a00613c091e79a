// All ranks of a record at one state of the computation, with one of them in focus. How they come there is
// said by those that derive from it: each rank alone (alone_world.h), or the whole job (live/live_world.h).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpi/debug/moves.h"
#include "mpi/debug/process.h"

namespace cairn::mpi::debug {

class World {
  public:
    // `beginning`: where all stand first; nobody goes back behind that. It is consistent.
    World(const Computation& computation, Cut beginning)
        : moves_(computation), beginning_(std::move(beginning)), cut_(beginning_) {}
    explicit World(const Computation& computation) : World(computation, Cut(computation.processes())) {}
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    virtual ~World() = default;

    [[nodiscard]] const Moves& moves() const { return moves_; }
    [[nodiscard]] Process ranks() const { return moves_.computation().processes(); }
    [[nodiscard]] Process focus() const { return focus_; }
    [[nodiscard]] const Cut& cut() const { return cut_; }
    [[nodiscard]] const Cut& beginning() const { return beginning_; }
    [[nodiscard]] State first(Process rank) const { return {rank, beginning_[rank]}; }
    // As Moves has them, but not behind the beginning.
    [[nodiscard]] State step_back(State from, std::uint64_t calls) const;
    [[nodiscard]] std::optional<State> previous(State from, const std::set<std::uint32_t>& places) const;
    [[nodiscard]] State state(Process rank) const { return {rank, cut_[rank]}; }
    [[nodiscard]] Spot spot(Process rank) const { return {cut_[rank], moves_.within(cut_, rank)}; }

    // "rank 2, event 5 of 17: MPI_Recv at heat.c:33 (exchange), receive from 1".
    [[nodiscard]] std::string text(Process rank) const;

    // Nobody moves.
    void look_at(Process rank) { focus_ = rank; }
    // This rank, which is in focus then, runs there; all others stand in the first state that is consistent.
    // If it fails everybody stands where they stood. Code refused: it is before the beginning.
    [[nodiscard]] Result<> go(State to);
    // Everybody to this consistent cut.
    [[nodiscard]] Result<> stand_at(const Cut& cut);

    // How a rank stands in this state, by its own words.
    struct Stand {
        std::uint64_t event = 0, position = 0;
        bool within = false;
        pid_t pid = -1;
        std::uint64_t frame = 0;         // alone: the address of the program's innermost one
        std::vector<std::string> stack;  // functions of the program, innermost first
    };
    [[nodiscard]] virtual Result<Stand> stand(Process rank) = 0;
    // A process in which gdb may look at a rank in this state, and do what it likes, if it is a copy.
    struct Looked {
        std::optional<RankProcess> copy;
        pid_t pid = -1;
    };
    [[nodiscard]] virtual Result<Looked> look_into(Process rank) = 0;
    // Behind how many of its events there are checkpoints of a rank, or of all of them.
    [[nodiscard]] virtual std::vector<Position> checkpointed(Process rank) = 0;
    // What was printed on the way to here, and came behind the movement's end.
    virtual void show_late_output() {}

  protected:
    // At least this rank to where it stands in that state. Returns where all stand then, which is that state,
    // or where others couldn't stay there a later one of theirs.
    [[nodiscard]] virtual Result<Cut> bring(Cut cut, Process focus) = 0;

    // All stand there from now on, and whoever is looked at runs there first.
    void assume(Cut cut) { cut_ = std::move(cut); }

  private:
    Moves moves_;
    Process focus_ = 0;
    Cut beginning_, cut_;
};

}  // namespace cairn::mpi::debug
