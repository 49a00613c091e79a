// May memory come to a restarted program when it is touched (restart/pages/)? Asked by the restart and by
// `cairn doctor`.
#pragma once

#include <linux/userfaultfd.h>

#include <cstdint>

#include "common/error.h"

namespace cairn {

// Every change of memory that a program can make is told.
inline constexpr std::uint64_t lazy_memory_features =
    UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;

// An error that says why memory can't come lazily here: the kernel, or this user.
[[nodiscard]] Result<> can_be_lazy();

}  // namespace cairn
