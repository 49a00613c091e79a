// What the machine, and the cgroups that this process is in, have left of what programs need.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace cairn {

inline constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

struct RoomLeft {
    std::int64_t most = no_limit, left = no_limit;
};

// The least that a group has left, of all from this process's own upwards; cgroups(7). The names of the files
// of cgroup v2, and of v1's: "memory.max" and "memory.current", for one. What isn't to be read limits
// nothing.
[[nodiscard]] RoomLeft room_in_groups(const std::string& controller, const char* most_name,
                                      const char* used_name, const char* old_most_name,
                                      const char* old_used_name);
// Of memory, bytes. What a group has in the page cache counts as used, though the kernel would give it back.
[[nodiscard]] RoomLeft memory_in_groups();

// MemAvailable of /proc/meminfo, bytes; no_limit where that isn't shown.
[[nodiscard]] std::int64_t available_memory();

}  // namespace cairn
