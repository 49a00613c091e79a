// A record that is debugged as a whole job: of any kind, also without contents.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "mpi/debug/live/live_world.h"
#include "mpi/debug/open.h"

namespace cairn::mpi::debug::live {

class OpenedJob {
  public:
    // As Opened::open. options.command is mpiexec and what belongs to it.
    [[nodiscard]] static Result<std::unique_ptr<OpenedJob>> open(
        const tool::Options& options, const Show& show, const std::function<void(const std::string&)>& note);

    [[nodiscard]] LiveWorld& world() { return *world_; }
    [[nodiscard]] const Identity& identity() const { return identity_; }
    [[nodiscard]] const Bounds& bounds() const { return bounds_; }

  private:
    OpenedJob() = default;

    std::unique_ptr<Scratch> scratch_;
    Identity identity_;
    Bounds bounds_;
    std::unique_ptr<const Computation> computation_;
    std::unique_ptr<Job> job_;
    std::unique_ptr<LiveWorld> world_;
};

}  // namespace cairn::mpi::debug::live
