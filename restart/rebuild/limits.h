// Limits of a process that comes back (setrlimit(2)).
#pragma once

#include <sys/resource.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/schema/process.h"

namespace cairn::restart {

// prlimit64(2) for the process: sets `fresh` if there is one, writes what was to `old` if that is not null.
// Returns 0 or an errno.
using LimitCall = std::function<int(unsigned resource, const rlimit64* fresh, rlimit64* old)>;

// Every limit as the image has it; what `inherited` from the tool is so already is left alone. A hard limit
// may be lowered by everybody and raised only with CAP_SYS_RESOURCE of the machine's own user namespace: what
// can't be raised stays as high as this restart may have it, and a note says so.
void set_limits(const schema::Process& process, std::span<const rlimit64> inherited, const LimitCall& call,
                std::vector<std::string>& notes);

}  // namespace cairn::restart
