// A program of ours that the coordinator starts and follows: the worker of a checkpoint, a look at stacks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"

namespace cairn::coordinator {

struct ToolProcess {
    pid_t pid = -1;  // the caller's to wait for
    Fd pidfd;        // becomes readable when it has ended
};

// Starts words[0], a path. Its input is empty, what it says goes to `output`, and `third`, if it is open, is
// its descriptor 3. It has a process group of its own, for Ctrl-C in the console isn't meant for it, the
// environment of a program of ours, and no signal blocked or ignored.
[[nodiscard]] Result<ToolProcess> start_tool(std::vector<std::string> words, const Fd& output,
                                             const Fd& third = Fd());

}  // namespace cairn::coordinator
