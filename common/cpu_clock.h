// Clocks of the CPU time of a process or thread, by its id (clock_getcpuclockid(3),
// linux/posix-timers_types.h): in the bits above the lowest three, inverted; the lowest two say what is
// counted, and are both set in a clock that is a descriptor.
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace cairn {

constexpr bool names_task(std::int32_t clock) {
    return clock < 0 && (clock & 3) != 3;
}
// Which kind of id it is depends on whose clock it is. 0: the caller's.
template <class AnId>
constexpr AnId task_of(std::int32_t clock) {
    return AnId(~(clock >> 3));
}
template <class Space>
constexpr std::int32_t clock_of_task(std::int32_t clock, Id<Space> task) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(~task.number()) << 3 |
                                     (static_cast<std::uint32_t>(clock) & 7U));
}

}  // namespace cairn
