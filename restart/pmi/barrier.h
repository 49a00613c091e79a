// Who of a job's ranks waits for whom: a launcher's barrier, whatever the protocol.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::restart::pmi {

class Barrier {
  public:
    struct Release {
        std::size_t rank = 0;  // index, not MPI's number
        bool ended = false;    // it had asked for its end; else it was in the barrier
    };
    using Releases = std::vector<Release>;

    explicit Barrier(std::size_t ranks) : ranks_(ranks, State::running) {}

    // A rank that had asked something before the checkpoint and was not answered: what, nobody knows any
    // more. It is the barrier, where everybody waits for the others; any other answer takes no time.
    [[nodiscard]] Releases waits(std::size_t rank);
    [[nodiscard]] Releases enter(std::size_t rank);
    [[nodiscard]] Releases finalize(std::size_t rank);
    // Its connection has ended.
    [[nodiscard]] Releases left(std::size_t rank);
    // It has asked for something else, and so waits for nobody.
    void runs(std::size_t rank) { ranks_.at(rank) = State::running; }
    void abort(int exit_code);

    // Why the others have to be ended, as a launcher does; empty: they needn't.
    [[nodiscard]] const std::string& failure() const { return failure_; }
    [[nodiscard]] int exit_code() const { return exit_code_; }

  private:
    enum class State { running, in_barrier, waiting, finished, gone };
    [[nodiscard]] Releases open();

    std::vector<State> ranks_;
    int exit_code_ = 0;
    std::string failure_;
};

}  // namespace cairn::restart::pmi
