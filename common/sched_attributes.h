// sched_getattr(2) and sched_setattr(2), for which glibc has no declaration before 2.41.
#pragma once

#include <cstdint>

namespace cairn {

// The kernel's struct sched_attr as far as Linux 3.14 had it (SCHED_ATTR_SIZE_VER0). `runtime`, `deadline`
// and `period`: ns, of SCHED_DEADLINE; of SCHED_OTHER and SCHED_BATCH `runtime` is the slice of time
// (Linux 6.12; 0: as long as all).
struct SchedAttributes {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
};

}  // namespace cairn
