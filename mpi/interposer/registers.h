// The registers that a call may leave with anything in them. The dynamic linker puts those of vectors on the
// program's stack when it looks up a function that is called for the first time, and there they stay, in the
// room of whatever is called next.
#pragma once

#include <cpuid.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cairn::mpi {

// x87, SSE, AVX, MPX and AVX-512, but not the tiles of AMX, which the dynamic linker leaves alone.
inline constexpr std::uint32_t kept_registers = 0xff;
// What XSAVE writes of these in its standard form (Intel SDM volume 1, 13.4: the last ends at 2688).
inline constexpr std::size_t kept_registers_room = 4096;

// Whether the system has switched XSAVE on; if not, there are no registers but those of SSE, of which FXSAVE
// takes care, and the linker's code for them stores no more than arguments.
[[nodiscard]] inline bool has_xsave() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_OSXSAVE) != 0;
}

// `room`: kept_registers_room bytes, aligned by 64.
inline void keep_registers(void* room) {
    // Of the header behind the legacy part XSAVE writes the first 8 bytes; XRSTOR wants zeros in the others.
    constexpr std::size_t header = 512, header_bytes = 64;
    std::memset(static_cast<char*>(room) + header, 0, header_bytes);
    asm volatile("xsave64 (%0)" : : "r"(room), "a"(kept_registers), "d"(0) : "memory");
}

inline void put_registers_back(const void* room) {
    asm volatile("xrstor64 (%0)"
                 :
                 : "r"(room), "a"(kept_registers), "d"(0)
                 : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

// The others that a called function needn't keep: the linker stores those for arguments, of which the
// function that it looks up may have fewer.
inline void empty_registers() {
    asm volatile(
        "xor %%ecx, %%ecx\n\txor %%edx, %%edx\n\txor %%esi, %%esi\n\txor %%edi, %%edi\n\t"
        "xor %%r8d, %%r8d\n\txor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\txor %%r11d, %%r11d"
        :
        :
        : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

}  // namespace cairn::mpi
