// What a process in a pid namespace below ours is called in there (pid_namespaces(7)): by itself, and by
// whoever else is in it. /proc shows both, the lines NSpid, NSpgid and NSsid of status, since Linux 4.1.
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/error.h"

namespace cairn::proc {

struct InnerIds {
    int depth = 0;                     // namespaces below ours; 0: it is in ours
    pid_t pid = 0, pgid = 0, sid = 0;  // pid: the thread's; 0: led from outside of the namespace
};
[[nodiscard]] Result<InnerIds> inner_ids(pid_t pid, pid_t tid);
[[nodiscard]] bool in_inner_pids(pid_t pid);

// The child of a process, or the thread, that it calls so, as we call it.
[[nodiscard]] std::optional<pid_t> child_called(pid_t parent, pid_t inner);
[[nodiscard]] std::optional<pid_t> thread_called(pid_t process, pid_t inner);

}  // namespace cairn::proc
