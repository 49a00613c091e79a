// `--io-uring=enosys`: programs are told that the kernel has no io_uring, and take their other path. By a
// seccomp filter: liburing makes its system calls by instructions of its own, which no wrapper sees.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace cairn {

// In the environment of who was launched so: how a capture knows the filter where it may not read it.
inline constexpr const char* env_io_uring = "CAIRN_IO_URING";
inline constexpr const char* io_uring_enosys = "enosys";

inline constexpr std::array<sock_filter, 7> io_uring_filter{{
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, arch)},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, AUDIT_ARCH_X86_64},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
    {BPF_JMP | BPF_JGE | BPF_K, 0, 2, SYS_io_uring_setup},
    {BPF_JMP | BPF_JGT | BPF_K, 1, 0, SYS_io_uring_register},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
}};
static_assert(SYS_io_uring_enter > SYS_io_uring_setup && SYS_io_uring_enter < SYS_io_uring_register);

inline bool io_uring_is_off() {
    return ::syscall(SYS_io_uring_setup, 0, nullptr) < 0 && errno == ENOSYS;
}

// For this process and all that it will make. Who may not (CAP_SYS_ADMIN) gives up set-id programs for it
// (no_new_privs), which could not be members anyway. 0, or an errno.
inline int turn_io_uring_off() {
    if (io_uring_is_off()) return 0;
    auto code = io_uring_filter;
    const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
    const auto install = [&] {
        return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
    };
    const int first = install();
    if (first != EACCES) return first;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
    return install();
}

}  // namespace cairn
