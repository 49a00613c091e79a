// What holds for a checkpoint of this host's processes, be it the whole or a part of one over several hosts.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/session.h"
#include "common/wire/capture.h"
#include "coordinator/registry.h"

namespace cairn::coordinator {

// What must be put back however a checkpoint ends.
class Attempt {
  public:
    Attempt(const Regions& regions, Registry& registry);
    ~Attempt() { release(); }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

    [[nodiscard]] std::uint64_t capture() const { return capture_; }
    // The copy-on-write children that still live end.
    void release();

  private:
    const Regions& regions_;
    Registry& registry_;
    const std::uint64_t capture_;
    bool released_ = false;
};

// Refused where a member can't be saved, by name.
[[nodiscard]] Result<> check_saveable(const Registry& registry);

// For a capture: where the regions are of those who aren't the owner's, and what is known of the members.
[[nodiscard]] std::vector<wire::RegionAt> regions_of_others(const Regions& regions);
[[nodiscard]] std::vector<wire::CapturedMember> members_told(const Registry& registry);

// Waits (200 ms at most) for children whose parent has gone: nobody's child to the worker. One whose parent
// lives is the worker's to wait for.
[[nodiscard]] boost::asio::awaitable<void> wait_for_births(boost::asio::io_context& io, Registry& registry);

// Bytes in a second; 0: nothing can be said yet.
[[nodiscard]] std::uint64_t rate_of(std::uint64_t bytes, std::chrono::nanoseconds time);

// Does the group stand still in this phase of a capture?
[[nodiscard]] bool is_standing(const std::string& phase);

// The checkpoint that a member has asked for by cairn_checkpoint() is over. It may have gone.
void answer_member(const Regions& regions, Place place, pid_t pid, ExitCode code);

}  // namespace cairn::coordinator
