// What holds for a checkpoint of this host's processes, be it the whole or a part of one over several hosts.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/error.h"
#include "common/region.h"
#include "common/session.h"
#include "coordinator/registry.h"

namespace cairn::coordinator {

// What must be put back however a checkpoint ends.
class Attempt {
  public:
    Attempt(Region& region, Registry& registry);
    ~Attempt() { release(); }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

    [[nodiscard]] std::uint64_t capture() const { return region_.capture; }
    // The copy-on-write children that still live end.
    void release();

  private:
    Region& region_;
    Registry& registry_;
    bool released_ = false;
};

// Refused where a member can't be saved, by name.
[[nodiscard]] Result<> check_saveable(const Registry& registry, const Region& region);

// Waits (200 ms at most) for children whose parent has gone: nobody's child to the worker. One whose parent
// lives is the worker's to wait for.
[[nodiscard]] boost::asio::awaitable<void> wait_for_births(boost::asio::io_context& io, Registry& registry,
                                                           const Region& region);

// Does the group stand still in this phase of a capture?
[[nodiscard]] bool is_standing(const std::string& phase);

}  // namespace cairn::coordinator
