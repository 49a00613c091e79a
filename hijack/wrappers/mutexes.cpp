// Mutexes whose word the kernel reads (robust ones when their owner dies, priority inheriting ones when they
// are contended) must hold the real tid. For the length of such a call the calling thread's block says its
// real tid; all other mutexes go by the virtual one, which they have held across the restart.
#include <linux/futex.h>
#include <pthread.h>
#include <time.h>

#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/raw.h"
#include "hijack/threads.h"

using namespace cairn::hijack;

namespace {

// glibc's bits in pthread_mutex_t::__kind (robust normal kinds begin at 16, priority inheritance is 32).
constexpr int robust_bit = 16, inherit_bit = 32;

bool kernel_reads(const pthread_mutex_t* mutex) {
    return (mutex->__data.__kind & (robust_bit | inherit_bit)) != 0;
}

template <class Call>
[[gnu::noinline]] int with_real_tid(const pthread_mutex_t* mutex, Call call) {
    std::int32_t* place = tid_in_block(::pthread_self());
    if (place == nullptr) return call();
    const std::int32_t name = *place;
    const std::int32_t tid = raw::tid().number();
    // A thread that slept in lock when the checkpoint was taken has put the tid into it that it had then.
    const auto word = static_cast<std::uint32_t>(__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED));
    if (name == tid || static_cast<std::int32_t>(word & FUTEX_TID_MASK) == name) return call();
    *place = tid;
    const int result = call();
    *place = name;
    return result;
}

template <class Call>
int guarded(const pthread_mutex_t* mutex, Call call) {
    if (!ids_are_virtual() || !kernel_reads(mutex)) [[likely]]
        return call();
    return with_real_tid(mutex, call);
}

}  // namespace

CAIRN_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    return guarded(mutex, [=] { return next<"pthread_mutex_lock">(&::pthread_mutex_lock)(mutex); });
}

CAIRN_EXPORT int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
    return guarded(mutex, [=] { return next<"pthread_mutex_trylock">(&::pthread_mutex_trylock)(mutex); });
}

CAIRN_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex, const struct timespec* until) noexcept {
    return guarded(mutex,
                   [=] { return next<"pthread_mutex_timedlock">(&::pthread_mutex_timedlock)(mutex, until); });
}

CAIRN_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                         const struct timespec* until) noexcept {
    return guarded(mutex, [=] {
        return next<"pthread_mutex_clocklock">(&::pthread_mutex_clocklock)(mutex, clock, until);
    });
}

CAIRN_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
    return guarded(mutex, [=] { return next<"pthread_mutex_unlock">(&::pthread_mutex_unlock)(mutex); });
}

CAIRN_EXPORT int pthread_mutex_consistent(pthread_mutex_t* mutex) noexcept {
    return guarded(mutex,
                   [=] { return next<"pthread_mutex_consistent">(&::pthread_mutex_consistent)(mutex); });
}

CAIRN_EXPORT int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
    return guarded(mutex, [=] { return next<"pthread_cond_wait">(&::pthread_cond_wait)(condition, mutex); });
}

CAIRN_EXPORT int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                        const struct timespec* until) {
    return guarded(mutex, [=] {
        return next<"pthread_cond_timedwait">(&::pthread_cond_timedwait)(condition, mutex, until);
    });
}

CAIRN_EXPORT int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                        const struct timespec* until) {
    return guarded(mutex, [=] {
        return next<"pthread_cond_clockwait">(&::pthread_cond_clockwait)(condition, mutex, clock, until);
    });
}
