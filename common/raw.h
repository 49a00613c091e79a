// System calls made directly: they enter nobody's wrapper, are no cancellation points and leave errno alone.
// For code that runs in other people's processes: the hijack library, the agent, the restorer.
#pragma once

#include <sys/syscall.h>

#include <cstdint>
#include <type_traits>

namespace cairn::raw {

template <class Value>
inline long word(Value value) {
    if constexpr (std::is_pointer_v<Value> || std::is_null_pointer_v<Value>)
        return reinterpret_cast<long>(value);
    else
        return static_cast<long>(value);
}

// The kernel's answer: -errno (-4095 to -1) on an error.
template <class... Args>
inline long call(long number, Args... args) {
    static_assert(sizeof...(Args) <= 6);
    long given[6] = {};
    [[maybe_unused]] unsigned n = 0;
    ((given[n++] = word(args)), ...);
    register long r10 asm("r10") = given[3];
    register long r8 asm("r8") = given[4];
    register long r9 asm("r9") = given[5];
    long result = number;
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(given[0]), "S"(given[1]), "d"(given[2]), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

inline bool failed(long result) {
    return static_cast<unsigned long>(result) > -4096UL;
}

}  // namespace cairn::raw
