// Raw system calls, and the ids of the caller as the kernel sees them.
#pragma once

#include "common/ids.h"
#include "common/raw.h"

namespace cairn::raw {

inline KernelId pid() {
    return KernelId(static_cast<std::int32_t>(call(SYS_getpid)));
}
inline KernelId parent_pid() {
    return KernelId(static_cast<std::int32_t>(call(SYS_getppid)));
}
inline KernelId tid() {
    return KernelId(static_cast<std::int32_t>(call(SYS_gettid)));
}

}  // namespace cairn::raw

namespace cairn::hijack {
namespace raw = cairn::raw;
}  // namespace cairn::hijack
