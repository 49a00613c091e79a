#include "restart/who_has.h"

#include <fmt/format.h>

#include "common/proc.h"

namespace cairn::restart {

std::string who_has(KernelId id) {
    const auto name_of = [](pid_t process) {
        const auto stat = proc::stat(process);
        return stat ? stat->comm : "";
    };
    const pid_t pid = id.number();
    if (const auto process = proc::process_of(pid))
        return fmt::format("pid {} is taken by {}process {} ({})", pid, *process == pid ? "" : "a thread of ",
                           *process, name_of(*process));
    for (const pid_t other : proc::processes()) {
        const auto stat = proc::stat(other);
        if (stat && (stat->pgrp == pid || stat->session == pid))
            return fmt::format("pid {} is taken as the id of the {} of process {} ({})", pid,
                               stat->session == pid ? "session" : "group", other, stat->comm);
    }
    return fmt::format("pid {} was taken, by somebody who has gone since", pid);
}

}  // namespace cairn::restart
