// Calls that take or give a process, thread, group or session id, and do nothing else with it.
#include "hijack/ids.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>

#include "hijack/next.h"
#include "hijack/traced_ids.h"

using namespace cairn::hijack;

extern "C" pid_t __getpid() noexcept;
extern "C" int pidfd_open(pid_t, unsigned) noexcept;  // <sys/pidfd.h> declares it as a C++ function
extern "C" pid_t __getpgid(pid_t) noexcept;
extern "C" int __setpgid(pid_t, pid_t) noexcept;
extern "C" int __sched_getparam(pid_t, struct sched_param*) noexcept;
extern "C" int __sched_getscheduler(pid_t) noexcept;
extern "C" int __sched_setscheduler(pid_t, int, const struct sched_param*) noexcept;
extern "C" long cairn_syscall_with_ids(long number, long a, long b, long c, long d, long e, long f);

CAIRN_EXPORT pid_t getpid() noexcept {
    return virtual_id(next<"getpid">(&::getpid)());
}

CAIRN_EXPORT pid_t __getpid() noexcept {
    return getpid();
}

CAIRN_EXPORT pid_t getppid() noexcept {
    return virtual_id(next<"getppid">(&::getppid)());
}

CAIRN_EXPORT pid_t gettid() noexcept {
    return virtual_id(next<"gettid">(&::gettid)());
}

CAIRN_EXPORT pid_t getpgrp() noexcept {
    return virtual_id(next<"getpgrp">(&::getpgrp)());
}

CAIRN_EXPORT pid_t getpgid(pid_t pid) noexcept {
    return virtual_id(next<"getpgid">(&::getpgid)(real_id(pid)));
}

CAIRN_EXPORT pid_t __getpgid(pid_t pid) noexcept {
    return getpgid(pid);
}

CAIRN_EXPORT int setpgid(pid_t pid, pid_t group) noexcept {
    return next<"setpgid">(&::setpgid)(real_id(pid), real_id(group));
}

CAIRN_EXPORT int __setpgid(pid_t pid, pid_t group) noexcept {
    return setpgid(pid, group);
}

CAIRN_EXPORT pid_t getsid(pid_t pid) noexcept {
    return virtual_id(next<"getsid">(&::getsid)(real_id(pid)));
}

CAIRN_EXPORT pid_t setsid() noexcept {
    return virtual_id(next<"setsid">(&::setsid)());
}

CAIRN_EXPORT pid_t tcgetpgrp(int fd) noexcept {
    return virtual_id(next<"tcgetpgrp">(&::tcgetpgrp)(fd));
}

CAIRN_EXPORT int tcsetpgrp(int fd, pid_t group) noexcept {
    const auto real = next<"tcsetpgrp">(&::tcsetpgrp);
    return with_id([=] { return real_id(group); }, [=](pid_t now) { return real(fd, now); });
}

CAIRN_EXPORT pid_t tcgetsid(int fd) noexcept {
    return virtual_id(next<"tcgetsid">(&::tcgetsid)(fd));
}

namespace {

id_t real_who(int which, id_t who) {
    return which == PRIO_USER ? who : static_cast<id_t>(real_id(static_cast<pid_t>(who)));
}

}  // namespace

// <sys/capability.h> is libcap's: libc has these without a declaration.
CAIRN_EXPORT int capget(void* header, void* data) noexcept {
    return static_cast<int>(cairn_syscall_with_ids(SYS_capget, reinterpret_cast<long>(header),
                                                   reinterpret_cast<long>(data), 0, 0, 0, 0));
}

CAIRN_EXPORT int capset(void* header, const void* data) noexcept {
    return static_cast<int>(cairn_syscall_with_ids(SYS_capset, reinterpret_cast<long>(header),
                                                   reinterpret_cast<long>(data), 0, 0, 0, 0));
}

CAIRN_EXPORT int getpriority(__priority_which_t which, id_t who) noexcept {
    return next<"getpriority">(&::getpriority)(which, real_who(which, who));
}

CAIRN_EXPORT int setpriority(__priority_which_t which, id_t who, int priority) noexcept {
    return next<"setpriority">(&::setpriority)(which, real_who(which, who), priority);
}

CAIRN_EXPORT int sched_setparam(pid_t pid, const struct sched_param* parameters) noexcept {
    return next<"sched_setparam">(&::sched_setparam)(real_id(pid), parameters);
}

CAIRN_EXPORT int sched_getparam(pid_t pid, struct sched_param* parameters) noexcept {
    return next<"sched_getparam">(&::sched_getparam)(real_id(pid), parameters);
}

CAIRN_EXPORT int __sched_getparam(pid_t pid, struct sched_param* parameters) noexcept {
    return sched_getparam(pid, parameters);
}

CAIRN_EXPORT int sched_setscheduler(pid_t pid, int policy, const struct sched_param* parameters) noexcept {
    return next<"sched_setscheduler">(&::sched_setscheduler)(real_id(pid), policy, parameters);
}

CAIRN_EXPORT int __sched_setscheduler(pid_t pid, int policy, const struct sched_param* parameters) noexcept {
    return sched_setscheduler(pid, policy, parameters);
}

CAIRN_EXPORT int sched_getscheduler(pid_t pid) noexcept {
    return next<"sched_getscheduler">(&::sched_getscheduler)(real_id(pid));
}

CAIRN_EXPORT int __sched_getscheduler(pid_t pid) noexcept {
    return sched_getscheduler(pid);
}

CAIRN_EXPORT int sched_rr_get_interval(pid_t pid, struct timespec* interval) noexcept {
    return next<"sched_rr_get_interval">(&::sched_rr_get_interval)(real_id(pid), interval);
}

CAIRN_EXPORT int sched_setaffinity(pid_t pid, std::size_t size, const cpu_set_t* set) noexcept {
    return next<"sched_setaffinity">(&::sched_setaffinity)(real_id(pid), size, set);
}

CAIRN_EXPORT int sched_getaffinity(pid_t pid, std::size_t size, cpu_set_t* set) noexcept {
    return next<"sched_getaffinity">(&::sched_getaffinity)(real_id(pid), size, set);
}

CAIRN_EXPORT int prlimit(pid_t pid, __rlimit_resource which, const struct rlimit* wanted,
                         struct rlimit* old) noexcept {
    return next<"prlimit">(&::prlimit)(real_id(pid), which, wanted, old);
}

CAIRN_EXPORT int prlimit64(pid_t pid, __rlimit_resource which, const struct rlimit64* wanted,
                           struct rlimit64* old) noexcept {
    return next<"prlimit64">(&::prlimit64)(real_id(pid), which, wanted, old);
}

CAIRN_EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec* local, unsigned long local_count,
                                      const struct iovec* remote, unsigned long remote_count,
                                      unsigned long flags) noexcept {
    return next<"process_vm_readv">(&::process_vm_readv)(real_id(pid), local, local_count, remote,
                                                         remote_count, flags);
}

CAIRN_EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec* local, unsigned long local_count,
                                       const struct iovec* remote, unsigned long remote_count,
                                       unsigned long flags) noexcept {
    return next<"process_vm_writev">(&::process_vm_writev)(real_id(pid), local, local_count, remote,
                                                           remote_count, flags);
}

CAIRN_EXPORT int pidfd_open(pid_t pid, unsigned flags) noexcept {
    return next<"pidfd_open">(&::pidfd_open)(real_id(pid), flags);
}

CAIRN_EXPORT int clock_getcpuclockid(pid_t pid, clockid_t* clock) noexcept {
    return next<"clock_getcpuclockid">(&::clock_getcpuclockid)(real_id(pid), clock);
}

CAIRN_EXPORT long ptrace(__ptrace_request request, ...) noexcept {
    va_list list;
    va_start(list, request);
    const pid_t pid = va_arg(list, pid_t);
    auto* address = va_arg(list, void*);
    auto* data = va_arg(list, void*);
    va_end(list);
    const auto real = next<"ptrace">(&::ptrace);
    return trace(request, pid, address, data, [=](long what, pid_t thread, void* at, void* with) {
        return real(static_cast<__ptrace_request>(what), thread, at, with);
    });
}
