// What speaks for a slot that says that a process is a member: the kernel's word, never the slot's.
#pragma once

#include <functional>

#include "coordinator/process_info.h"
#include "coordinator/regions.h"

namespace cairn::coordinator {

enum class Claim {
    proved,
    unproved,  // nothing speaks for it yet: in the middle of an exec nothing is mapped
    false_,    // it runs as another user than those who can write into the region
};

// `pid` must be held by a pidfd that was opened before `info` was read, so that all is said of one process.
// `handed`: the gate has given this region to it. It may have executed a program since that maps nothing.
[[nodiscard]] Claim judge(const Regions& regions, std::size_t number, pid_t pid, const ProcessInfo& info,
                          bool handed, const std::function<bool(pid_t)>& is_member);

}  // namespace cairn::coordinator
