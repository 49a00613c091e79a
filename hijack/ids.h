// Virtual ids: a restored program goes on to use the pids, tids, process groups and sessions that it had; the
// region's map says what the kernel calls them now. While the map is empty every translation is one load.
//
// The wrappers have plain numbers on both sides, as libc and the kernel declare them: what a program gives
// and gets is its own (ProgramId), what goes on to the kernel and comes from there the kernel's (KernelId).
#pragma once

#include <cstdint>

#include "hijack/resident.h"

namespace cairn::hijack {

inline bool ids_are_virtual() {
    return region() != nullptr && region()->ids.used.load(std::memory_order_relaxed) != 0;
}

// Program's id to kernel's id. 0 and below (oneself, everybody, an error) stay.
inline std::int32_t real_id(std::int32_t id) {
    return ids_are_virtual() ? kernel_id(region()->ids, ProgramId(id)).number() : id;
}

// Kernel's id to program's id; 0 and below stay.
inline std::int32_t virtual_id(std::int32_t id) {
    return ids_are_virtual() ? program_id(region()->ids, KernelId(id)).number() : id;
}

// As kill(2), waitpid(2) and F_SETOWN have it: below -1, a process group.
inline std::int32_t real_pid_or_group(std::int32_t id) {
    return id < -1 ? -real_id(-id) : real_id(id);
}
inline std::int32_t virtual_pid_or_group(std::int32_t id) {
    return id < -1 ? -virtual_id(-id) : virtual_id(id);
}

// A call with an id in memory, or in a register that the capture doesn't know of (capture/translation.h). A
// restart from between the two makes the id another: then the call is made again.
template <class Translate, class Call>
auto with_id(Translate translate, Call call) {
    for (;;) {
        const std::int32_t id = translate();
        const auto answer = call(id);
        if (answer >= 0 || translate() == id) return answer;
    }
}

}  // namespace cairn::hijack
