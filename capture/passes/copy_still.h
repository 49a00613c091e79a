// Processes of which the kernel will probably say that hardly anything was written since the newest
// generation: that little is copied into the capture's memory while they stand still, instead of forking a
// copy-on-write child, which takes as long as all of their memory does
// (docs/decisions/0044-write-protection.md).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "capture/passes/passes.h"
#include "common/helper_threads.h"

namespace cairn::capture {

// Which of the members those are: one alone has marks, and the newest generation has stored little of it.
// Room for as much, which nobody has to look for in the pause.
[[nodiscard]] std::map<pid_t, std::shared_ptr<StillRoom>> make_still_rooms(const Setting& setting);

class StillCopies {
  public:
    // Begins to read the flags of those processes' memory. They stand still.
    StillCopies(const Ahead& ahead, const Members& members);

    // Those of the drafts that were copied have `still`. The others have to be forked, and are what they
    // were: of whom more has changed, who may have memory in common with another process of the group since a
    // fork, and who has marked memory in a way that makes a difference. Refused: somebody outside watches it.
    [[nodiscard]] Result<> copy(const Ahead& ahead, const ObjectTable& objects, Drafts& drafts);

  private:
    struct One {
        pid_t living = 0;
        std::optional<Result<std::vector<proc::MapLine>>> flags{};
    };
    [[nodiscard]] Result<std::vector<Draft*>> copy_pages_of(const Ahead& ahead, Drafts& drafts);

    std::map<pid_t, One> all_;  // by StoppedProcess::pid
    std::function<void()> read_;
    HelperThreads reader_;
};

}  // namespace cairn::capture
