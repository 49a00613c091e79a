// Processes of which the kernel will probably say that hardly anything was written since the newest
// generation: that little is copied into the capture's memory while they stand still, instead of forking a
// copy-on-write child, which takes as long as all of their memory does
// (docs/decisions/0044-write-protection.md).
#pragma once

#include <sys/types.h>

#include <memory>
#include <set>

#include "capture/passes/passes.h"

namespace cairn::capture {

class StillOnes {
  public:
    // Which of the members those seem to be: who has marks, and of whom the newest generation has stored
    // little. Begins to look for room for as much.
    explicit StillOnes(const Setting& setting);
    [[nodiscard]] bool has(pid_t pid) const { return all_.contains(pid); }
    // The programs are about to be stopped.
    void ready();

    // They stand still, and have had their marks looked at. Those of the drafts that were copied have
    // `still`. The others have to be forked, and are what they were: of whom more has changed, who may have
    // memory in common with another process of the group since a fork, and who has marked memory in a way
    // that makes a difference. Refused: somebody outside watches it.
    [[nodiscard]] Result<> copy(const Ahead& ahead, const ObjectTable& objects, Drafts& drafts) const;

  private:
    std::set<pid_t> all_;
    std::shared_ptr<StillRoom> room_;  // null: nobody needs any
};

}  // namespace cairn::capture
