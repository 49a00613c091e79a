// PMIx version 4, as Open MPI's mpirun speaks it over TCP. A message is a header of four 32-bit numbers in
// network order (index of the peer, tag, size of the body, nothing; pmix_ptl_hdr_t), and a body: values, each
// behind their count, numbers in a variable length ("flex128": seven bits a byte, the lowest first, the sign
// in the lowest bit). A question has a tag of its own, and its answer the same one.
#pragma once

#include <cstdint>
#include <map>

#include "restart/pmi/job.h"

namespace cairn::restart::pmi {

class Pmix : public Job {
  public:
    explicit Pmix(std::size_t ranks) : Job(ranks), asked_(ranks) {}

    // Questions from before the checkpoint that were not answered; Job::waits() is still to be called.
    void awaits(std::size_t rank, std::vector<std::uint32_t> tags) { asked_.at(rank) = std::move(tags); }

    // A message that isn't understood ends the job: its sender would wait for ever.
    [[nodiscard]] Answers read(std::size_t rank, std::string& unread) override;

  private:
    [[nodiscard]] std::string answer(const Barrier::Release& release) override;
    [[nodiscard]] Answers hear(std::size_t rank, std::uint32_t tag, std::string_view body);

    std::vector<std::vector<std::uint32_t>> asked_;  // of each rank: what the barrier's answer answers
};

}  // namespace cairn::restart::pmi
