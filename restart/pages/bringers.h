// As many bringers as there are processors, for when several pieces are waited for at once: where many
// processes come back, each of them touches its memory in the same moment.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "common/helper_threads.h"
#include "restart/pages/bringer.h"

namespace cairn::restart::pages {

class Bringers {
  public:
    Bringers();
    ~Bringers();
    Bringers(const Bringers&) = delete;
    Bringers& operator=(const Bringers&) = delete;

    // How many pieces can be brought at once.
    [[nodiscard]] std::size_t count() const { return count_; }
    // All of them, each in the place of its order; the caller brings some itself. No two may be of one piece.
    [[nodiscard]] std::vector<Brought> bring(std::span<const Order> orders);

  private:
    void help();
    void take(Bringer& bringer);

    std::size_t count_;
    Bringer own_;
    std::span<const Order> orders_;
    std::vector<Brought> brought_;
    std::atomic<std::size_t> next_ = 0;  // of orders_

    std::mutex mutex_;  // guards what is below
    std::condition_variable begun_, ended_;
    std::uint64_t batch_ = 0;  // a new one for each call
    std::size_t at_work_ = 0;  // helpers that have joined in this one
    bool open_ = false;        // others may still join in
    bool over_ = false;        // there will be no other
    HelperThreads helpers_;    // begun when they are first of use
};

}  // namespace cairn::restart::pages
