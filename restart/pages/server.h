// The page server of a lazy restart: brings the pages of the image when the programs touch them, and all
// others in the background, until nothing is missing. One for a restart, a process of its own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/fd.h"
#include "common/region.h"
#include "common/region_mapping.h"
#include "restart/pages/log.h"
#include "restart/rebuild/memory_plan.h"

namespace cairn::restart::pages {

struct Served {         // a process whose pages come lazily
    pid_t pid = 0;      // the kernel's
    std::string name;   // for messages
    std::string image;  // path, for messages
    int image_fd = -1;
    std::vector<restorer::Run> runs;
};

struct ServedRegion {
    const Region* region = nullptr;
    FileKey key;
};

struct Work {
    std::vector<Served> processes;
    std::vector<ServedRegion> regions;  // whose programs end when pages can't be had
    int lock = -1;                      // what a capture waits for; how much is left is written to it
};

// A child process that shares the table of descriptors with its parent, so that what one opens outlives it in
// the other. 0 in the child, -1 with errno.
[[nodiscard]] pid_t fork_with_descriptors();

// In the server's process. `parent` takes over when the server dies; when the parent dies the server finds
// itself another. Never returns: exits 0 when everything is in place, 1 when the programs had to be ended.
[[noreturn]] void serve(const Work& work, const Log& log);

// In a process of its own: does nothing but hold the table of descriptors, until the server and who waits for
// it have both died; then it takes the latter's place. Without anybody the kernel would give zeros.
[[noreturn]] void keep(const Work& work, const Log& log);

}  // namespace cairn::restart::pages
