// PMI version 1, as MPICH's mpiexec speaks it: lines of "cmd=NAME key=value ..." (the MPICH sources' "PMI
// wire protocol").
#pragma once

#include <map>
#include <string_view>

#include "restart/pmi/job.h"

namespace cairn::restart::pmi {

class PmiOne : public Job {
  public:
    // `ranks`: how many are here; `size`: of how many the job is.
    PmiOne(std::size_t ranks, int size) : Job(ranks), size_(size) {}

    [[nodiscard]] Answers read(std::size_t rank, std::string& unread) override;
    // A line without its end.
    [[nodiscard]] Answers hear(std::size_t rank, std::string_view line);

  private:
    [[nodiscard]] std::string answer(const Barrier::Release& release) override;
    [[nodiscard]] std::string reply(const std::map<std::string, std::string, std::less<>>& words);

    int size_ = 0;
    std::map<std::string, std::string> values_;
};

}  // namespace cairn::restart::pmi
