// Calls that name a process, thread or process group in a register: made again after a restart, they must
// name it as the kernel does now.
#pragma once

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/ptrace/restart_code.h"
#include "common/ptrace/thread.h"

namespace cairn {

// Whether a call takes an id that translate_pid_arguments() knows of, or gives one of the caller's own.
inline bool takes_ids(unsigned long long call) {
    switch (call) {
        case SYS_getpid:
        case SYS_getppid:
        case SYS_getpgrp:
        case SYS_gettid:
        case SYS_setsid:
        case SYS_wait4:
        case SYS_waitid:
        case SYS_kill:
        case SYS_tkill:
        case SYS_tgkill:
        case SYS_rt_sigqueueinfo:
        case SYS_rt_tgsigqueueinfo:
        case SYS_getpgid:
        case SYS_getsid:
        case SYS_setpgid:
        case SYS_pidfd_open:
        case SYS_kcmp:
        case SYS_process_vm_readv:
        case SYS_process_vm_writev:
        case SYS_prlimit64:
        case SYS_sched_setparam:
        case SYS_sched_getparam:
        case SYS_sched_setscheduler:
        case SYS_sched_getscheduler:
        case SYS_sched_rr_get_interval:
        case SYS_sched_setaffinity:
        case SYS_sched_getaffinity:
        case SYS_sched_setattr:
        case SYS_sched_getattr:
        case SYS_getpriority:
        case SYS_setpriority:
        case SYS_ioprio_set:
        case SYS_ioprio_get:
        case SYS_get_robust_list:
        case SYS_migrate_pages:
        case SYS_move_pages:
        case SYS_ptrace:
            return true;
        default:
            return false;
    }
}

// Calls that only tell the caller of itself: they can be made at any moment.
inline bool asks_about_itself(unsigned long long call) {
    switch (call) {
        case SYS_getpid:
        case SYS_getppid:
        case SYS_getpgrp:
        case SYS_gettid:
        case SYS_getuid:
        case SYS_geteuid:
        case SYS_getgid:
        case SYS_getegid:
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

// `translate`: From -> the other kind of id, for pids and process groups alike. Changes the arguments of a
// call that is to be made again.
template <class From, class Translate>
void translate_pid_arguments(ptrace::Registers& registers, const Translate& translate) {
    const auto one = [&](unsigned long long& value) {
        const From id(static_cast<std::int32_t>(value));
        if (id.known())
            value = static_cast<unsigned long long>(static_cast<long long>(translate(id).number()));
    };
    const auto one_or_group = [&](unsigned long long& value) {
        const auto id = static_cast<std::int32_t>(value);
        if (id < -1)
            value = static_cast<unsigned long long>(-static_cast<long long>(translate(From(-id)).number()));
        else
            one(value);
    };
    if (!to_be_made_again(registers)) return;
    switch (registers.orig_rax) {
        case SYS_wait4:
        case SYS_kill:
            one_or_group(registers.rdi);
            break;
        case SYS_waitid:
            if (registers.rdi == P_PID || registers.rdi == P_PGID) one(registers.rsi);
            break;
        case SYS_tgkill:
        case SYS_rt_tgsigqueueinfo:
        case SYS_setpgid:
        case SYS_kcmp:
            one(registers.rdi);
            one(registers.rsi);
            break;
        case SYS_ptrace:
            one(registers.rsi);
            break;
        case SYS_getpriority:
        case SYS_setpriority:
            if (registers.rdi != PRIO_USER) one(registers.rsi);
            break;
        case SYS_ioprio_set:
        case SYS_ioprio_get: {
            constexpr unsigned of_user = 3;  // linux/ioprio.h
            if (registers.rdi != of_user) one(registers.rsi);
            break;
        }
        case SYS_tkill:
        case SYS_rt_sigqueueinfo:
        case SYS_getpgid:
        case SYS_getsid:
        case SYS_pidfd_open:
        case SYS_process_vm_readv:
        case SYS_process_vm_writev:
        case SYS_prlimit64:
        case SYS_sched_setparam:
        case SYS_sched_getparam:
        case SYS_sched_setscheduler:
        case SYS_sched_getscheduler:
        case SYS_sched_rr_get_interval:
        case SYS_sched_setaffinity:
        case SYS_sched_getaffinity:
        case SYS_sched_setattr:
        case SYS_sched_getattr:
        case SYS_get_robust_list:
        case SYS_migrate_pages:
        case SYS_move_pages:
            one(registers.rdi);
            break;
        default:
            break;
    }
}

}  // namespace cairn
