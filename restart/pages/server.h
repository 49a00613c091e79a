// The page server of a lazy restart: brings the pages of the image when the programs touch them, and all
// others in the background, until nothing is missing. One for a restart, a process of its own.
#pragma once

#include <sys/types.h>

#include "restart/pages/shared.h"

namespace cairn::restart::pages {

// A child process that shares the table of descriptors with its parent. 0 in the child, -1 with errno.
[[nodiscard]] pid_t fork_with_descriptors();

// In the server's process. Exits 0 when everything is in place, 1 when the programs had to be ended.
[[noreturn]] void serve(const Work& work, const Shared& shared);

// In a process of its own: holds the table of descriptors. When the server (a child of our parent) dies
// before everything is in place it ends the programs.
[[noreturn]] void keep(const Work& work, const Shared& shared, pid_t server);

}  // namespace cairn::restart::pages
