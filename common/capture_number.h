// Which checkpoint a region's processes are part of at the moment.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdint>

#include "common/region.h"

namespace cairn {

// Sets Region::capture, 0 for none, and wakes the agents and copy-on-write children that sleep until it
// changes (hijack/agent/agent.cpp): the lower half of the number is their futex, little-endian.
inline void set_capture_number(Region& region, std::uint64_t number) {
    region.capture.store(number);
    ::syscall(SYS_futex, &region.capture, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace cairn
