// The folder of a service's checkpoints: who runs the service from it, and how its checkpoints are given up.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::service {

struct Holder {
    pid_t pid = 0;         // as its own pid namespace has it
    std::string sessions;  // CAIRN_RUNDIR there, "" if it isn't set
};

// As long as this lives nobody else runs the service: of two that go on from one checkpoint each would do the
// work of the other once more. The lock (OFD, so also over NFS) goes with the process that has it, however
// that ends; programs don't inherit it.
class Claim {
  public:
    // ExitCode::refused where another has it.
    [[nodiscard]] static Result<Claim> take(const std::string& folder);

  private:
    explicit Claim(Fd lock) : lock_(std::move(lock)) {}
    Fd lock_;
};

// Who has the claim now; none: the service doesn't run.
[[nodiscard]] std::optional<Holder> holder_of(const std::string& folder);

// Removes the checkpoints: the next start begins anew. Each computation is gone at once, by a rename, so that
// a machine that stops in the middle doesn't go on from an older one of it. Only what is cairn's is touched.
[[nodiscard]] Result<> give_up_checkpoints(const std::string& folder);

}  // namespace cairn::service
