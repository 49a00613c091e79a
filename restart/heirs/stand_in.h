// A process that has an heir's descriptors until it is born: those that the program had, and those that the
// restorer needs. The heir takes them from there, number by number (pidfd_getfd(2), Linux 5.6).
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "restart/rebuild/rebuilding.h"

namespace cairn::restart {

// They end with their owner, or with the tool.
class HeirStandIns {
  public:
    // `avoid`: ids that none of them may have.
    explicit HeirStandIns(std::set<KernelId> avoid) : avoid_(std::move(avoid)) {}
    HeirStandIns(const HeirStandIns&) = delete;
    HeirStandIns& operator=(const HeirStandIns&) = delete;
    ~HeirStandIns();

    // Forks one, which calls `arrange` and then waits; on false it ends. Errors: fork(2), or that it has
    // ended.
    [[nodiscard]] Result<HeirStandIn> start(const std::function<bool()>& arrange);

  private:
    std::set<KernelId> avoid_;
    std::vector<pid_t> all_;
};

}  // namespace cairn::restart
