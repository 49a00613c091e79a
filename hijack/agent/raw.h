// System calls without libc: no errno, no cancellation point, no lock. The result is the kernel's (-errno on failure).
#pragma once

#include <cstdint>

namespace cairn::raw {

template <class... Args>
inline long call(long number, Args... args) {
    const long values[6] = {(long)args...};  // NOLINT: integers and pointers alike go to the kernel as words
    register long r10 asm("r10") = values[3];
    register long r8 asm("r8") = values[4];
    register long r9 asm("r9") = values[5];
    long result;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

}  // namespace cairn::raw
