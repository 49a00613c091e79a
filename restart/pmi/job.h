// What an MPI launcher would answer the programs that it has started as one job. The launcher itself is gone
// after a restart; its programs know each other already and need it for their end only.
#pragma once

#include <string>
#include <vector>

#include "restart/pmi/barrier.h"

namespace cairn::restart::pmi {

class Job {
  public:
    struct Answer {
        std::size_t rank = 0;  // index, not MPI's number
        std::string bytes;
    };
    using Answers = std::vector<Answer>;

    explicit Job(std::size_t ranks) : barrier_(ranks) {}
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    virtual ~Job() = default;

    // Takes whole messages of a rank's off the front of what was received.
    [[nodiscard]] virtual Answers read(std::size_t rank, std::string& unread) = 0;
    [[nodiscard]] Answers waits(std::size_t rank) { return to(barrier_.waits(rank)); }
    [[nodiscard]] Answers left(std::size_t rank) { return to(barrier_.left(rank)); }
    [[nodiscard]] const std::string& failure() const { return barrier_.failure(); }
    [[nodiscard]] int exit_code() const { return barrier_.exit_code(); }

  protected:
    [[nodiscard]] virtual std::string answer(const Barrier::Release& release) = 0;
    [[nodiscard]] Answers to(const Barrier::Releases& releases) {
        Answers answers;
        for (const auto& release : releases) answers.push_back({release.rank, answer(release)});
        return answers;
    }
    [[nodiscard]] Barrier& barrier() { return barrier_; }

  private:
    Barrier barrier_;
};

}  // namespace cairn::restart::pmi
