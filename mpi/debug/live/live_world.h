// The whole job at one cut: forward it is run together, under coordinated checkpoints; back, the last of
// these whose cut lies before is brought back, and runs from there.
#pragma once

#include <map>
#include <vector>

#include "mpi/debug/live/job.h"
#include "mpi/debug/world.h"

namespace cairn::mpi::debug::live {

class LiveWorld : public World {
  public:
    // `job` stands at its beginning, and outlives it. `note`: for the user.
    LiveWorld(const Computation& computation, Bounds bounds, Job& job,
              std::function<void(const std::string&)> note);

    [[nodiscard]] Result<Stand> stand(Process rank) override;
    // The rank itself: gdb must not let it go on.
    [[nodiscard]] Result<Looked> look_into(Process rank) override;
    [[nodiscard]] std::vector<Position> checkpointed(Process rank) override;
    void show_late_output() override { job_.show_late_output(); }

    // The job goes on freely from here to its end, and is recorded in this folder; everybody stands here
    // again when somebody looks. Returns how it has ended. Code refused: a rank waits for what the record
    // says that it gets, and could get another thing; or threads, a recorded clock or persistent receives
    // bind a rank to its record.
    [[nodiscard]] Result<std::string> leave(const std::string& folder);

    struct Kept {
        Cut cut;
        Job::Checkpoint checkpoint;
    };
    [[nodiscard]] const std::vector<Kept>& checkpoints() const { return kept_; }

  private:
    [[nodiscard]] Result<Cut> bring(Cut cut, Process focus) override;
    [[nodiscard]] Result<> bring_to(const Cut& cut, Process focus);
    [[nodiscard]] Result<> run_to(const Cut& cut, Process focus, Position end);
    [[nodiscard]] Result<> can_be_left() const;
    [[nodiscard]] Result<> can_be_left(Process rank) const;
    [[nodiscard]] Result<Cut> beyond(const Cut& cut, Process focus, Position end) const;
    [[nodiscard]] Cut next_on_the_way(const Cut& cut) const;
    [[nodiscard]] const Kept* nearest(const Cut& cut) const;
    [[nodiscard]] double interval() const;
    void keep();
    void thin_out();

    Bounds bounds_;
    Job& job_;
    std::function<void(const std::string&)> note_;
    std::vector<Kept> kept_;  // the first is the beginning; by how many events they have
    Cut here_;                // where the job stands
    bool lost_ = false;       // or nowhere
    // Where it stood when it was to come to the cut in front, where others waited for those that stood.
    std::map<Cut, Cut> beyond_;
    bool saving_ = true;
    double since_ = 0;  // seconds of running since the last checkpoint on this way
    std::uint64_t events_since_ = 0;
    double seconds_ = 0;        // of running in all, for
    std::uint64_t events_ = 0;  // so many events of all ranks
};

}  // namespace cairn::mpi::debug::live
