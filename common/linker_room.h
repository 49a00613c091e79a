// glibc's dynamic linker stores registers while it looks for a function that is called for the first time
// (lazy binding). By XSAVEC it writes only what is in use; by XSAVE, where the CPU has no XSAVEC or the
// program is kept to a level without it, all that the running CPU has. The room for it is what the CPU needed
// on which the program was executed (sysdeps/x86/cpu-features.c, update_active()): on a CPU with more
// registers it would write over the stack of its callers.
//
// The hijack library includes this: no allocation.
#pragma once

#include <cpuid.h>

#include <cstdint>

#include "common/cpu_level.h"

namespace cairn {

// SSE lies in the legacy area; AVX, MPX and AVX-512 (STATE_SAVE_MASK, sysdeps/x86_64/dl-trampoline.h).
inline constexpr unsigned stored_by_linker[] = {2, 3, 5, 6, 7};
inline constexpr std::uint32_t room_for_everything = UINT32_MAX;

// Bytes that XSAVE writes of these here; as cpu_state_layout().
inline std::uint32_t linker_state_here() {
    constexpr std::uint32_t legacy_and_header = 576, state_leaf = 0xd, osxsave = 1U << 27;
    std::uint32_t a = 0, b = 0, c = 0, d = 0, low = 0, high = 0, size = legacy_and_header;
    if (__get_cpuid_max(0, nullptr) < state_leaf) return size;
    __cpuid(1, a, b, c, d);
    if ((c & osxsave) == 0) return size;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    for (const unsigned number : stored_by_linker) {
        if ((low >> number & 1) == 0) continue;
        __cpuid_count(state_leaf, number, a, b, c, d);
        if (a != 0 && a + b > size) size = a + b;
    }
    return size;
}

// What the linker of a program that is executed here has room for.
inline std::uint32_t linker_room_here(CpuLevel level) {
    constexpr std::uint32_t state_leaf = 0xd, xsavec = 1U << 1;
    std::uint32_t a = 0, b = 0, c = 0, d = 0;
    const bool told_to_do_without = level == CpuLevel::v2 || level == CpuLevel::v3;
    if (!told_to_do_without && __get_cpuid_max(0, nullptr) >= state_leaf) {
        __cpuid_count(state_leaf, 1, a, b, c, d);
        if ((a & xsavec) != 0) return room_for_everything;
    }
    return linker_state_here();
}

}  // namespace cairn
