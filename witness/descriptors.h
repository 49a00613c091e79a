// The descriptors of a process: what /proc shows of them, and what calls on a duplicate tell
// (pidfd_getfd(2)).
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/fd.h"
#include "witness/facts.h"

namespace cairn::witness {

// Under PID/fd/N/. Returns their numbers.
std::vector<int> see_descriptors(Facts& facts, pid_t pid);
// Under PREFIX/: names, queues and every option of every level that the kernel answers for (getsockopt(2)),
// but for those whose reading changes something.
void see_socket(Facts& facts, const std::string& prefix, const Fd& socket);

}  // namespace cairn::witness
