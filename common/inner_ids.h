// What a process in a pid namespace below ours is called in there (pid_namespaces(7)): by itself, and by
// whoever else is in it. /proc shows both, the lines NSpid, NSpgid and NSsid of status, since Linux 4.1.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace cairn::proc {

struct IdsIn {                         // one namespace
    pid_t pid = 0, pgid = 0, sid = 0;  // pid: the thread's; 0: led from outside of the namespace
};
struct InnerIds {
    std::vector<IdsIn> in;  // its own namespace and those around it, the innermost first, without ours

    [[nodiscard]] int depth() const { return static_cast<int>(in.size()); }  // 0: it is in ours
    [[nodiscard]] const IdsIn& own() const { return in.front(); }
    // In the one that is so deep below ours.
    [[nodiscard]] pid_t pid_at(int depth) const {
        return in[in.size() - static_cast<std::size_t>(depth)].pid;
    }
};
[[nodiscard]] Result<InnerIds> inner_ids(pid_t pid, pid_t tid);
[[nodiscard]] bool in_inner_pids(pid_t pid);

// The child of a process that has this name and calls itself so, or the thread of a process that does, as we
// call it.
[[nodiscard]] std::optional<pid_t> child_called(pid_t parent, pid_t inner, std::string_view name);
[[nodiscard]] std::optional<pid_t> thread_called(pid_t process, pid_t inner);

}  // namespace cairn::proc
