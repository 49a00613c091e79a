// Threads by their virtual tids. What libc would tell the kernel of another thread by the tid in its block,
// which is the virtual one, is told here by the real one; the same goes for mutexes whose word the kernel
// reads.
#include "hijack/threads.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/raw.h"

using namespace cairn;
using namespace cairn::hijack;

namespace {

// Given to a new thread. Lies on the stack of the thread that makes it, which waits until it has been read:
// by then the new one has its name, and whoever gets its handle finds the right tid in its block.
template <class Function>
struct ThreadStart {
    Function function;
    void* argument;
    std::uint32_t life = region()->life.load(std::memory_order_acquire);
    std::atomic<std::uint32_t> read = 0;

    ThreadStart(Function todo, void* with) : function(todo), argument(with) {}

    void wait() {
        while (read.load(std::memory_order_acquire) == 0)
            raw::call(SYS_futex, &read, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
};

// A thread that was saved before it has come here, or its maker before it has made it, may have been named by
// a restart: its entry is no dead one's. A debugger holds threads there, between clone(2) and their first
// step, for as long as its user likes.
ProgramId name_of_new_thread(std::uint32_t made_in_life) {
    const KernelId tid = raw::tid();
    if (made_in_life != region()->life.load(std::memory_order_acquire))
        if (const ProgramId restored = bound_to(region()->ids, tid); restored.known()) return restored;
    return name_newcomer(region()->ids, tid);
}

template <class Function>
auto begin_thread(void* from) {
    auto* start = static_cast<ThreadStart<Function>*>(from);
    write_own_tid(name_of_new_thread(start->life));
    const Function function = start->function;
    void* const argument = start->argument;
    start->read.store(1, std::memory_order_release);
    raw::call(SYS_futex, &start->read, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    return function(argument);
}

using ThreadFunction = void* (*)(void*);
using C11Function = int (*)(void*);

// The answer of a system call as pthread functions give it.
int error_of(long answer) {
    return raw::failed(answer) ? static_cast<int>(-answer) : 0;
}

// /proc/self/task/TID/comm, opened; -errno if it can't be.
long open_name(std::int32_t tid, int flags) {
    char path[64] = "/proc/self/task/";
    std::size_t end = std::strlen(path);
    char digits[12];
    int n = 0;
    for (unsigned v = static_cast<unsigned>(tid); n == 0 || v != 0; v /= 10)
        digits[n++] = static_cast<char>('0' + v % 10);
    while (n > 0) path[end++] = digits[--n];
    std::strcpy(path + end, "/comm");
    return raw::call(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

}  // namespace

CAIRN_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, ThreadFunction function,
                                void* argument) noexcept {
    const auto real = next<"pthread_create">(&::pthread_create);
    if (!ids_are_virtual()) return real(thread, attributes, function, argument);
    ThreadStart<ThreadFunction> start(function, argument);
    const int error = real(thread, attributes, begin_thread<ThreadFunction>, &start);
    if (error == 0) start.wait();
    return error;
}

CAIRN_EXPORT int thrd_create(thrd_t* thread, C11Function function, void* argument) {
    const auto real = next<"thrd_create">(&::thrd_create);
    if (!ids_are_virtual()) return real(thread, function, argument);
    ThreadStart<C11Function> start(function, argument);
    const int error = real(thread, begin_thread<C11Function>, &start);
    if (error == thrd_success) start.wait();
    return error;
}

CAIRN_EXPORT int pthread_kill(pthread_t thread, int signal) noexcept {
    const KernelId tid = differing_kernel_tid_of_other(thread);
    if (!tid.known()) return next<"pthread_kill">(&::pthread_kill)(thread, signal);
    if (signal == 32 || signal == 33) return EINVAL;  // libc's own
    return error_of(raw::call(SYS_tgkill, raw::pid().number(), tid.number(), signal));
}

CAIRN_EXPORT int pthread_sigqueue(pthread_t thread, int signal, const union sigval value) noexcept {
    if (!differing_kernel_tid(thread).known())
        return next<"pthread_sigqueue">(&::pthread_sigqueue)(thread, signal, value);
    if (signal == 32 || signal == 33) return EINVAL;
    siginfo_t info = {};
    info.si_signo = signal;
    info.si_code = SI_QUEUE;
    info.si_pid = raw::pid().number();
    info.si_uid = static_cast<uid_t>(raw::call(SYS_getuid));
    info.si_value = value;
    return error_of(raw::call(SYS_rt_tgsigqueueinfo, raw::pid().number(),
                              differing_kernel_tid(thread).number(), signal, &info));
}

// libc marks the thread as cancelled and, if it sleeps, sends it signal 32; that would go to the tid in the
// block, in our process: to nobody, or to a thread that isn't marked and takes no notice.
CAIRN_EXPORT int pthread_cancel(pthread_t thread) {
    constexpr int cancel_signal = 32;
    const KernelId tid = differing_kernel_tid_of_other(thread);
    const int error = next<"pthread_cancel">(&::pthread_cancel)(thread);
    if (!tid.known()) return error;
    raw::call(SYS_tgkill, raw::pid().number(), tid.number(), cancel_signal);
    return 0;
}

CAIRN_EXPORT int pthread_setschedparam(pthread_t thread, int policy,
                                       const struct sched_param* wanted) noexcept {
    const KernelId tid = differing_kernel_tid(thread);
    if (!tid.known()) return next<"pthread_setschedparam">(&::pthread_setschedparam)(thread, policy, wanted);
    return error_of(raw::call(SYS_sched_setscheduler, tid.number(), policy, wanted));
}

CAIRN_EXPORT int pthread_setschedprio(pthread_t thread, int priority) noexcept {
    const KernelId tid = differing_kernel_tid(thread);
    if (!tid.known()) return next<"pthread_setschedprio">(&::pthread_setschedprio)(thread, priority);
    const struct sched_param wanted = {priority};
    return error_of(raw::call(SYS_sched_setparam, tid.number(), &wanted));
}

CAIRN_EXPORT int pthread_getschedparam(pthread_t thread, int* policy, struct sched_param* found) noexcept {
    const KernelId tid = differing_kernel_tid(thread);
    if (!tid.known()) return next<"pthread_getschedparam">(&::pthread_getschedparam)(thread, policy, found);
    const long answer = raw::call(SYS_sched_getscheduler, tid.number());
    if (raw::failed(answer)) return error_of(answer);
    *policy = static_cast<int>(answer);
    return error_of(raw::call(SYS_sched_getparam, differing_kernel_tid(thread).number(), found));
}

CAIRN_EXPORT int pthread_setaffinity_np(pthread_t thread, std::size_t size, const cpu_set_t* set) noexcept {
    const KernelId tid = differing_kernel_tid(thread);
    if (!tid.known()) return next<"pthread_setaffinity_np">(&::pthread_setaffinity_np)(thread, size, set);
    return error_of(raw::call(SYS_sched_setaffinity, tid.number(), size, set));
}

CAIRN_EXPORT int pthread_getaffinity_np(pthread_t thread, std::size_t size, cpu_set_t* set) noexcept {
    const KernelId tid = differing_kernel_tid(thread);
    if (!tid.known()) return next<"pthread_getaffinity_np">(&::pthread_getaffinity_np)(thread, size, set);
    const long written = raw::call(SYS_sched_getaffinity, tid.number(), size, set);
    if (raw::failed(written)) return error_of(written);
    std::memset(reinterpret_cast<char*>(set) + written, 0, size - static_cast<std::size_t>(written));
    return 0;
}

CAIRN_EXPORT int pthread_setname_np(pthread_t thread, const char* name) noexcept {
    const KernelId tid = differing_kernel_tid_of_other(thread);
    if (!tid.known()) return next<"pthread_setname_np">(&::pthread_setname_np)(thread, name);
    const std::size_t length = std::strlen(name);
    if (length > 15) return ERANGE;
    const long fd = with_id([=] { return differing_kernel_tid_of_other(thread).number(); },
                            [](std::int32_t now) { return open_name(now, O_WRONLY); });
    if (raw::failed(fd)) return error_of(fd);
    const long written = raw::call(SYS_write, fd, name, length);
    raw::call(SYS_close, fd);
    return error_of(written);
}

CAIRN_EXPORT int pthread_getname_np(pthread_t thread, char* name, std::size_t size) noexcept {
    const KernelId tid = differing_kernel_tid_of_other(thread);
    if (!tid.known()) return next<"pthread_getname_np">(&::pthread_getname_np)(thread, name, size);
    if (size < 16) return ERANGE;
    const long fd = with_id([=] { return differing_kernel_tid_of_other(thread).number(); },
                            [](std::int32_t now) { return open_name(now, O_RDONLY); });
    if (raw::failed(fd)) return error_of(fd);
    const long got = raw::call(SYS_read, fd, name, 16);
    raw::call(SYS_close, fd);
    if (raw::failed(got)) return error_of(got);
    name[got > 0 ? got - 1 : 0] = '\0';  // the kernel ends it with a newline
    return 0;
}

CAIRN_EXPORT int pthread_getcpuclockid(pthread_t thread, clockid_t* clock) noexcept {
    const KernelId tid = differing_kernel_tid(thread);
    if (!tid.known()) return next<"pthread_getcpuclockid">(&::pthread_getcpuclockid)(thread, clock);
    constexpr unsigned per_thread = 4, scheduled = 2;  // include/linux/posix-timers.h
    *clock = static_cast<clockid_t>((~static_cast<unsigned>(tid.number()) << 3) | per_thread | scheduled);
    return 0;
}

// libc asks the kernel for the affinity by the tid in the block, and fails without it. The block can't say
// another tid for the moment, as its thread may be locking a mutex by it: libc gets a copy that does. (The
// block's own lock, which libc takes here, is free: who takes it for a thread that goes by another tid is in
// this file.)
CAIRN_EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t* attributes) noexcept {
    const auto real = next<"pthread_getattr_np">(&::pthread_getattr_np);
    const KernelId tid = differing_kernel_tid(thread);
    constexpr std::size_t room = 4096;  // 2304 bytes with glibc 2.36
    const std::size_t size = !tid.known() ? 0 : size_of_block();
    if (size == 0 || size > room) return real(thread, attributes);
    alignas(64) char copy[room];
    std::memcpy(copy, reinterpret_cast<const void*>(thread), size);
    const auto stand_in = reinterpret_cast<pthread_t>(&copy[0]);
    __atomic_store_n(tid_in_block(stand_in), tid.number(), __ATOMIC_RELAXED);
    return real(stand_in, attributes);
}

CAIRN_EXPORT int timer_create(clockid_t clock, struct sigevent* event, timer_t* timer) noexcept {
    const auto real = next<"timer_create">(&::timer_create);
    if (event == nullptr || event->sigev_notify != SIGEV_THREAD_ID || !ids_are_virtual())
        return real(clock, event, timer);
    struct sigevent translated = *event;
    return with_id([=] { return real_id(event->_sigev_un._tid); },
                   [&](std::int32_t now) {
                       translated._sigev_un._tid = now;
                       return real(clock, &translated, timer);
                   });
}
