// How many layers of Landlock rules a thread could still put on itself: all that tells whether it has any.
// The kernel shows nobody what a thread has forbidden itself (landlock(7)), but lets nobody have more than 16
// layers (LANDLOCK_MAX_NUM_LAYERS, security/landlock/limits.h; 64 before Linux 5.19), and a child has its
// parent's. So a child restricts itself until the kernel says E2BIG, and ends.
#pragma once

#include <sched.h>

#include <cstdint>

#include "common/raw.h"

namespace cairn {

// landlock_create_ruleset(2) and landlock_restrict_self(2), Linux 5.13. glibc has no functions for these
// calls, older headers no numbers.
inline constexpr int landlock_create_ruleset_call = 444, landlock_restrict_self_call = 446;

inline constexpr std::int32_t landlock_not_asked = -1;   // there is no answer
inline constexpr std::int32_t landlock_not_known = -2;   // no child could be made, or somebody has killed it
inline constexpr std::int32_t landlock_not_there = 200;  // the kernel has none, or it isn't switched on

// Of the thread that calls; or one of the three above. For code that runs in other people's processes, too:
// the child borrows the memory, needs no stack, and has a descriptor table of its own. To be allowed to
// restrict itself it promises to gain no privileges (PR_SET_NO_NEW_PRIVS), as threads do for themselves
// alone. It is not seen by wait calls for children that signal their end. 25 to 90 us.
inline std::int32_t landlock_room() {
    static constexpr std::uint64_t handled_access_fs =
        1;  // struct landlock_ruleset_attr of the first version
    register long r10 asm("r10") = 0;
    register long r8 asm("r8") = 0;
    long child = SYS_clone;
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "mov $436, %%eax\n\t"  // close_range(0, ~0, CLOSE_RANGE_UNSHARE)
        "xor %%edi, %%edi\n\t"
        "mov $-1, %%esi\n\t"
        "mov $2, %%edx\n\t"
        "syscall\n\t"
        "mov $157, %%eax\n\t"  // prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        "mov $38, %%edi\n\t"
        "mov $1, %%esi\n\t"
        "xor %%edx, %%edx\n\t"
        "xor %%r10d, %%r10d\n\t"
        "xor %%r8d, %%r8d\n\t"
        "syscall\n\t"
        "mov $444, %%eax\n\t"  // landlock_create_ruleset()
        "mov %[attributes], %%rdi\n\t"
        "mov $8, %%esi\n\t"
        "xor %%edx, %%edx\n\t"
        "syscall\n\t"
        "mov $200, %%r8d\n\t"
        "mov %%rax, %%r10\n\t"
        "test %%rax, %%rax\n\t"
        "js 3f\n\t"
        "xor %%r8d, %%r8d\n"
        "2:\n\t"
        "mov $446, %%eax\n\t"  // landlock_restrict_self(ruleset, 0)
        "mov %%r10, %%rdi\n\t"
        "xor %%esi, %%esi\n\t"
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 3f\n\t"
        "inc %%r8d\n\t"
        "cmp $100, %%r8d\n\t"
        "jb 2b\n"
        "3:\n\t"
        "mov $60, %%eax\n\t"  // exit
        "mov %%r8d, %%edi\n\t"
        "syscall\n\t"
        "ud2\n"
        "1:"
        : "+a"(child), "+r"(r10), "+r"(r8)
        : "D"(CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS), "S"(0L),
          "d"(0L), [attributes] "b"(&handled_access_fs)
        : "rcx", "r11", "memory");
    static_assert(SYS_close_range == 436 && SYS_prctl == 157 && SYS_exit == 60);
    if (raw::failed(child)) return landlock_not_known;
    // __WALL and EINTR; the headers that have the one don't go together.
    constexpr long all_kinds = 0x40000000, interrupted = -4;
    std::int32_t status = 0;
    while (raw::call(SYS_wait4, child, &status, all_kinds, nullptr) == interrupted) {
    }
    return (status & 0x7f) == 0 ? status >> 8 & 0xff : landlock_not_known;
}

}  // namespace cairn
