// Raw system calls, and the ids of the caller as the kernel sees them.
#pragma once

#include "common/raw.h"

namespace cairn::raw {

inline std::int32_t pid() {
    return static_cast<std::int32_t>(call(SYS_getpid));
}
inline std::int32_t parent_pid() {
    return static_cast<std::int32_t>(call(SYS_getppid));
}
inline std::int32_t tid() {
    return static_cast<std::int32_t>(call(SYS_gettid));
}

}  // namespace cairn::raw

namespace cairn::hijack {
namespace raw = cairn::raw;
}  // namespace cairn::hijack
