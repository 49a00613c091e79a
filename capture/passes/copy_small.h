// Small processes of which there are many: their memory is copied into the capture's while they stand still.
// Each copy-on-write child would cost its making, its mappings' flags and its end, which is more than what
// the few pages of such a process do (docs/decisions/0047-small-processes.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <set>

#include "capture/passes/passes.h"

namespace cairn::capture {

class SmallOnes {
  public:
    // Which of the members those seem to be; nobody, where they are few. Begins to look for room for all that
    // they have.
    explicit SmallOnes(const Setting& setting);
    [[nodiscard]] bool has(pid_t pid) const { return all_.contains(pid); }

    // They stand still. Those of the drafts that were copied have `still`. The others have to be forked, and
    // are what they were: who has grown, for one. Refused: somebody outside watches it.
    [[nodiscard]] Result<> copy(const Ahead& ahead, const ObjectTable& objects, Drafts& drafts) const;

  private:
    [[nodiscard]] Result<> copy_one(const Ahead& ahead, bool own_userfaultfd, Draft& draft) const;

    std::set<pid_t> all_;
    std::uint64_t most_of_one_ = 0;    // bytes that may be copied of each
    std::shared_ptr<StillRoom> room_;  // null: nobody needs any
};

}  // namespace cairn::capture
