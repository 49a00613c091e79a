// Memory policies of parts of a process's memory, mbind(2).
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "common/error.h"
#include "common/schema/process.h"

namespace cairn::capture {

struct MemoryPolicy {
    std::int32_t mode = 0;  // MPOL_* with its flags; 0: none
    schema::Bytes nodes;    // a bit each, in words of 8 bytes
    bool operator==(const MemoryPolicy&) const = default;
};

// "bind=static:0-1,3", as /proc/PID/numa_maps has it (mm/mempolicy.c, mpol_to_str). None for words that
// aren't known.
[[nodiscard]] MemoryPolicy parse_policy(std::string_view text);

// By the address at which an area begins. What has no policy of its own shows its thread's there,
// `of_thread`, and is left out. Counts all pages: not for a process that stands still, and only where there
// are policies.
[[nodiscard]] Result<std::map<ProgramAddress, MemoryPolicy>> memory_policies(pid_t pid,
                                                                             const MemoryPolicy& of_thread);

}  // namespace cairn::capture
