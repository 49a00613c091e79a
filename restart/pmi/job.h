// What an MPI launcher would answer the programs that it has started as one job: the protocol of PMI version
// 1, lines of "cmd=NAME key=value ..." (the MPICH sources' "PMI wire protocol"). The launcher itself is gone
// after a restart; its programs know each other already and need it for their end only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::restart::pmi {

class Job {
  public:
    struct Answer {
        std::size_t rank = 0;  // index, not MPI's number
        std::string line;      // ends in \n
    };
    using Answers = std::vector<Answer>;

    // `ranks`: how many are here; `size`: of how many the job is.
    Job(std::size_t ranks, int size) : ranks_(ranks, State::running), size_(size) {}

    // A rank that had asked something before the checkpoint and was not answered: what, nobody knows any
    // more. It is the barrier, where everybody waits for the others; any other answer takes no time.
    [[nodiscard]] Answers waits(std::size_t rank);
    // A line without its end.
    [[nodiscard]] Answers hear(std::size_t rank, std::string_view line);
    // Its connection has ended.
    [[nodiscard]] Answers left(std::size_t rank);

    // Why the others have to be ended, as a launcher does; empty: they needn't.
    [[nodiscard]] const std::string& failure() const { return failure_; }
    [[nodiscard]] int exit_code() const { return exit_code_; }

  private:
    enum class State { running, in_barrier, waiting, finished, gone };
    [[nodiscard]] Answers open_barrier();
    [[nodiscard]] std::string answer(const std::map<std::string, std::string, std::less<>>& words);

    std::vector<State> ranks_;
    int size_ = 0, exit_code_ = 0;
    std::map<std::string, std::string> values_;
    std::string failure_;
};

}  // namespace cairn::restart::pmi
