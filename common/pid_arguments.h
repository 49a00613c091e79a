// Calls that name a process, thread or process group in a register: made again after a restart, they must
// name it as the kernel does now.
#pragma once

#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/ptrace/thread.h"

namespace cairn {

// Whether a call takes an id that translate_pid_arguments() knows of.
inline bool takes_ids(unsigned long long call) {
    switch (call) {
        case SYS_wait4:
        case SYS_waitid:
        case SYS_kill:
        case SYS_tkill:
        case SYS_tgkill:
        case SYS_getpgid:
        case SYS_getsid:
        case SYS_setpgid:
        case SYS_pidfd_open:
        case SYS_getpid:
        case SYS_getppid:
        case SYS_getpgrp:
        case SYS_gettid:
        case SYS_setsid:
            return true;
        default:
            return false;
    }
}

// Whether a call's answer may be an id, or be a number that tells nothing of ids and leaves nothing to be
// judged.
inline bool speaks_of_ids(unsigned long long call) {
    return takes_ids(call) || call == SYS_ioctl || call == SYS_fcntl || call == SYS_clone ||
           call == SYS_clone3 || call == SYS_fork || call == SYS_vfork;
}

// `translate`: id -> id, for pids and process groups alike. Changes the arguments of a call that is to be
// made again.
template <class Translate>
void translate_pid_arguments(ptrace::Registers& registers, const Translate& translate) {
    const auto one = [&](unsigned long long& value) {
        const auto id = static_cast<pid_t>(value);
        if (id > 0) value = static_cast<unsigned long long>(static_cast<long long>(translate(id)));
    };
    const auto one_or_group = [&](unsigned long long& value) {
        const auto id = static_cast<pid_t>(value);
        if (id < -1)
            value = static_cast<unsigned long long>(-static_cast<long long>(translate(-id)));
        else
            one(value);
    };
    // linux/errno.h, not for user space. A finished call's registers are the program's: it may count on them.
    constexpr long long first_restart_code = -516, last_restart_code = -512;
    const auto answer = static_cast<long long>(registers.rax);
    if (answer < first_restart_code || answer > last_restart_code) return;
    switch (registers.orig_rax) {
        case SYS_wait4:
        case SYS_kill:
            one_or_group(registers.rdi);
            break;
        case SYS_waitid:
            if (registers.rdi == P_PID || registers.rdi == P_PGID) one(registers.rsi);
            break;
        case SYS_tgkill:
        case SYS_setpgid:
            one(registers.rdi);
            one(registers.rsi);
            break;
        case SYS_tkill:
        case SYS_getpgid:
        case SYS_getsid:
        case SYS_pidfd_open:
            one(registers.rdi);
            break;
        default:
            break;
    }
}

}  // namespace cairn
