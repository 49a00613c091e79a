// What syscall.S leaves: failures, and system calls with ids or relative timeouts in them.
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>

#include "common/agent.h"
#include "common/landlock_room.h"
#include "hijack/ids.h"
#include "hijack/raw.h"
#include "hijack/sysv.h"
#include "hijack/timing.h"
#include "hijack/trace_notes.h"
#include "hijack/traced_ids.h"

using namespace cairn::hijack;

extern "C" [[gnu::visibility("hidden")]] cairn::Door cairn_door;

namespace {

constexpr int call_count = 512;

struct CallsToLookAt {
    bool has[call_count] = {};
    consteval CallsToLookAt() {
        for (const long number : {SYS_getpid,
                                  SYS_getppid,
                                  SYS_gettid,
                                  SYS_getpgrp,
                                  SYS_getpgid,
                                  SYS_setpgid,
                                  SYS_getsid,
                                  SYS_setsid,
                                  SYS_kill,
                                  SYS_tkill,
                                  SYS_tgkill,
                                  SYS_rt_sigqueueinfo,
                                  SYS_rt_tgsigqueueinfo,
                                  SYS_wait4,
                                  SYS_waitid,
                                  SYS_pidfd_open,
                                  SYS_kcmp,
                                  SYS_process_vm_readv,
                                  SYS_process_vm_writev,
                                  SYS_prlimit64,
                                  SYS_sched_setparam,
                                  SYS_sched_getparam,
                                  SYS_sched_setscheduler,
                                  SYS_sched_getscheduler,
                                  SYS_sched_rr_get_interval,
                                  SYS_sched_setaffinity,
                                  SYS_sched_getaffinity,
                                  SYS_sched_setattr,
                                  SYS_sched_getattr,
                                  SYS_getpriority,
                                  SYS_setpriority,
                                  SYS_ioprio_set,
                                  SYS_ioprio_get,
                                  SYS_perf_event_open,
                                  SYS_ptrace,
                                  SYS_get_robust_list,
                                  SYS_migrate_pages,
                                  SYS_move_pages,
                                  SYS_capget,
                                  SYS_capset,
                                  SYS_futex,
                                  SYS_nanosleep,
                                  SYS_clock_nanosleep,
                                  SYS_mbind,
                                  SYS_setuid,
                                  SYS_setreuid,
                                  SYS_setresuid,
                                  SYS_poll,
                                  SYS_shmget,
                                  SYS_shmat,
                                  SYS_shmctl,
                                  SYS_semget,
                                  SYS_semop,
                                  SYS_semtimedop,
                                  SYS_semctl,
                                  SYS_msgget,
                                  SYS_msgsnd,
                                  SYS_msgrcv,
                                  SYS_msgctl,
                                  SYS_unshare,
                                  SYS_setns,
                                  cairn::landlock_restrict_self_call})
            has[number] = true;
    }
};

std::int32_t id(long word) {
    return static_cast<std::int32_t>(word);
}

// The length of a relative timeout, -1 if the call has none.
std::int64_t timeout_of(long number, long a, long b, long c, long d) {
    const auto at = [](long address) {
        return Noted::nanoseconds(reinterpret_cast<const timespec*>(address));
    };
    switch (number) {
        case SYS_futex:
            return (b & FUTEX_CMD_MASK) == FUTEX_WAIT ? at(d) : -1;
        case SYS_nanosleep:
            return at(a);
        case SYS_clock_nanosleep:
            return (b & TIMER_ABSTIME) == 0 ? at(c) : -1;
        default:
            return Noted::milliseconds(static_cast<std::int32_t>(c));
    }
}

bool is_user(long number, long which) {
    constexpr long ioprio_who_user = 3;
    return number == SYS_getpriority || number == SYS_setpriority ? which == PRIO_USER
                                                                  : which == ioprio_who_user;
}

}  // namespace

// Read by syscall.S: a byte for each number.
extern "C"
    __attribute__((visibility("hidden"), used)) constinit const CallsToLookAt cairn_syscalls_with_ids = {};

extern "C" __attribute__((visibility("hidden"))) long cairn_syscall_failed(long answer) {
    errno = static_cast<int>(-answer);
    return -1;
}

namespace {

long answered(long answer) {
    return raw::failed(answer) ? cairn_syscall_failed(answer) : answer;
}

long waitid_call(long kind, long who, long info_at, long options, long usage) {
    if (kind == P_PID || kind == P_PGID) who = real_id(id(who));
    const long result = answered(raw::call(SYS_waitid, kind, who, info_at, options, usage, 0));
    if (result == 0) told(reinterpret_cast<siginfo_t*>(info_at), static_cast<int>(options));
    return result;
}

// capget(2) and capset(2) name a thread in their header.
long capabilities_call(long number, long header_at, long data) {
    std::int32_t header[2] = {};  // version, thread
    // The kernel answers a wrong address with EFAULT, and so do we.
    const iovec here = {header, sizeof header}, there = {reinterpret_cast<void*>(header_at), sizeof header};
    const long got = raw::call(SYS_process_vm_readv, raw::pid().number(), &here, 1, &there, 1, 0);
    if (got != sizeof header || real_id(header[1]) == header[1])
        return answered(raw::call(number, header_at, data));
    header[1] = real_id(header[1]);
    const long answer = answered(raw::call(number, reinterpret_cast<long>(&header[0]), data));
    *reinterpret_cast<std::int32_t*>(header_at) =
        header[0];  // where it asked for one that the kernel doesn't know
    return answer;
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) long cairn_syscall_with_ids(long number, long a, long b,
                                                                             long c, long d, long e, long f) {
    const auto call = [&] { return answered(raw::call(number, a, b, c, d, e, f)); };
    switch (number) {
        case SYS_getpid:
        case SYS_getppid:
        case SYS_gettid:
        case SYS_getpgrp:
        case SYS_setsid:
            return virtual_id(id(call()));
        case SYS_getpgid:
        case SYS_getsid:
            a = real_id(id(a));
            return virtual_id(id(call()));
        case SYS_kill:
            a = real_pid_or_group(id(a));
            return call();
        case SYS_wait4: {
            a = real_pid_or_group(id(a));
            return told(id(call()), reinterpret_cast<const int*>(b));
        }
        case SYS_waitid:
            return waitid_call(a, b, c, d, e);
        case SYS_setpgid:
        case SYS_tgkill:
        case SYS_rt_tgsigqueueinfo:
        case SYS_kcmp:
            a = real_id(id(a));
            b = real_id(id(b));
            return call();
        case SYS_getpriority:
        case SYS_setpriority:
        case SYS_ioprio_set:
        case SYS_ioprio_get:
            if (!is_user(number, a)) b = real_id(id(b));
            return call();
        case SYS_futex:
        case SYS_nanosleep:
        case SYS_clock_nanosleep:
        case SYS_poll: {
            const auto length = timeout_of(number, a, b, c, d);
            if (length < 0) return call();
            const Noted note(number, length);
            return call();
        }
        case SYS_mbind:  // libc has no function for it; libnuma comes this way
            cairn_door.memory_policies = 1;
            return call();
        case cairn::landlock_restrict_self_call:  // whoever checkpoints it has to ask for it
            note_restriction();
            return call();
        case SYS_setuid:
        case SYS_setreuid:
        case SYS_setresuid: {  // of this thread alone; the kernel takes the main thread's for the process's
            const long answer = call();
            if (answer == 0 && raw::tid() == raw::pid()) user_has_changed();
            return answer;
        }
        case SYS_ptrace:
            return trace(a, id(b), reinterpret_cast<void*>(c), reinterpret_cast<void*>(d),
                         [](long what, std::int32_t thread, void* at, void* with) {
                             return answered(raw::call(SYS_ptrace, what, thread, at, with, 0, 0));
                         });
        case SYS_unshare:
        case SYS_setns: {
            const long answer = call();
            ipc_may_have_changed();
            return answer;
        }
        case SYS_perf_event_open:
            b = real_id(id(b));
            return call();
        case SYS_clone: {  // without CLONE_VM: a fork
            const long answer = call();
            if (answer == 0) born_by_clone();
            return answer;
        }
        case SYS_capget:
        case SYS_capset:
            return capabilities_call(number, a, b);
        case SYS_shmget:
        case SYS_shmat:
        case SYS_shmctl:
        case SYS_semget:
        case SYS_semop:
        case SYS_semtimedop:
        case SYS_semctl:
        case SYS_msgget:
        case SYS_msgsnd:
        case SYS_msgrcv:
        case SYS_msgctl:
            return system_v_call(number, a, b, c, d, e);
        default:  // all others of the list: the first argument
            a = real_id(id(a));
            return call();
    }
}
