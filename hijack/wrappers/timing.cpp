// Calls that sleep for a relative time. Each calls libc's function, and so stays the cancellation point that
// it is, and restarts or is interrupted as it is. The system call noted is the one that glibc makes for the
// function, not always the one of its name; test/hijack compares it with what the kernel says.
#include "hijack/timing.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "hijack/next.h"
#include "hijack/resident.h"

using namespace cairn::hijack;

// The fortified forms of poll and ppoll have no declaration outside libc's inline functions.
extern "C" int __poll_chk(struct pollfd*, nfds_t, int, std::size_t);
extern "C" int __ppoll_chk(struct pollfd*, nfds_t, const struct timespec*, const sigset_t*, std::size_t);
extern "C" int __nanosleep(const struct timespec*, struct timespec*);
extern "C" int __poll(struct pollfd*, nfds_t, int);
extern "C" int __select(int, fd_set*, fd_set*, fd_set*, struct timeval*);

namespace {

constexpr long no_clock = -1;

// Calls `call` with a note around it. A timeout of 0 doesn't sleep and needs none.
template <class Call>
auto noted(long number, std::int64_t length_ns, Call call) {
    if (region() == nullptr || length_ns == 0) return call();
    const Noted note(number, length_ns);
    return call();
}

std::int64_t nanoseconds(const struct timeval* time) {
    if (time == nullptr || time->tv_sec < 0 || time->tv_sec > Noted::longest_s || time->tv_usec < 0)
        return -1;
    return time->tv_sec * 1'000'000'000 +
           time->tv_usec * 1'000;  // tv_usec may exceed a second: libc allows it
}

// Processor time doesn't pass while a process stands still.
bool wall_clock(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
           clock == CLOCK_TAI || clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM;
}

}  // namespace

CAIRN_EXPORT int nanosleep(const struct timespec* time, struct timespec* left) {
    return noted(SYS_clock_nanosleep, Noted::nanoseconds(time),
                 [=] { return next<"nanosleep">(&::nanosleep)(time, left); });
}

CAIRN_EXPORT int __nanosleep(const struct timespec* time, struct timespec* left) {
    return nanosleep(time, left);
}

CAIRN_EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec* time,
                                 struct timespec* left) {
    const bool relative = (flags & TIMER_ABSTIME) == 0 && wall_clock(clock);
    return noted(SYS_clock_nanosleep, relative ? Noted::nanoseconds(time) : no_clock,
                 [=] { return next<"clock_nanosleep">(&::clock_nanosleep)(clock, flags, time, left); });
}

CAIRN_EXPORT int thrd_sleep(const struct timespec* time, struct timespec* left) {
    return noted(SYS_clock_nanosleep, Noted::nanoseconds(time),
                 [=] { return next<"thrd_sleep">(&::thrd_sleep)(time, left); });
}

CAIRN_EXPORT unsigned int sleep(unsigned int seconds) {
    return noted(SYS_clock_nanosleep, std::int64_t{seconds} * 1'000'000'000,
                 [=] { return next<"sleep">(&::sleep)(seconds); });
}

CAIRN_EXPORT int usleep(useconds_t microseconds) {
    return noted(SYS_clock_nanosleep, std::int64_t{microseconds} * 1'000,
                 [=] { return next<"usleep">(&::usleep)(microseconds); });
}

CAIRN_EXPORT int poll(struct pollfd* fds, nfds_t count, int timeout) {
    return noted(SYS_poll, Noted::milliseconds(timeout),
                 [=] { return next<"poll">(&::poll)(fds, count, timeout); });
}

CAIRN_EXPORT int __poll(struct pollfd* fds, nfds_t count, int timeout) {
    return poll(fds, count, timeout);
}

CAIRN_EXPORT int __poll_chk(struct pollfd* fds, nfds_t count, int timeout, std::size_t size) {
    return noted(SYS_poll, Noted::milliseconds(timeout),
                 [=] { return next<"__poll_chk">(&::__poll_chk)(fds, count, timeout, size); });
}

CAIRN_EXPORT int ppoll(struct pollfd* fds, nfds_t count, const struct timespec* timeout,
                       const sigset_t* mask) {
    return noted(SYS_ppoll, Noted::nanoseconds(timeout),
                 [=] { return next<"ppoll">(&::ppoll)(fds, count, timeout, mask); });
}

CAIRN_EXPORT int __ppoll_chk(struct pollfd* fds, nfds_t count, const struct timespec* timeout,
                             const sigset_t* mask, std::size_t size) {
    return noted(SYS_ppoll, Noted::nanoseconds(timeout),
                 [=] { return next<"__ppoll_chk">(&::__ppoll_chk)(fds, count, timeout, mask, size); });
}

CAIRN_EXPORT int select(int count, fd_set* in, fd_set* out, fd_set* except, struct timeval* timeout) {
    return noted(SYS_pselect6, nanoseconds(timeout),
                 [=] { return next<"select">(&::select)(count, in, out, except, timeout); });
}

CAIRN_EXPORT int __select(int count, fd_set* in, fd_set* out, fd_set* except, struct timeval* timeout) {
    return select(count, in, out, except, timeout);
}

CAIRN_EXPORT int pselect(int count, fd_set* in, fd_set* out, fd_set* except, const struct timespec* timeout,
                         const sigset_t* mask) {
    return noted(SYS_pselect6, Noted::nanoseconds(timeout),
                 [=] { return next<"pselect">(&::pselect)(count, in, out, except, timeout, mask); });
}

CAIRN_EXPORT int epoll_wait(int fd, struct epoll_event* events, int size, int timeout) {
    return noted(SYS_epoll_wait, Noted::milliseconds(timeout),
                 [=] { return next<"epoll_wait">(&::epoll_wait)(fd, events, size, timeout); });
}

CAIRN_EXPORT int epoll_pwait(int fd, struct epoll_event* events, int size, int timeout,
                             const sigset_t* mask) {
    return noted(SYS_epoll_pwait, Noted::milliseconds(timeout),
                 [=] { return next<"epoll_pwait">(&::epoll_pwait)(fd, events, size, timeout, mask); });
}

CAIRN_EXPORT int epoll_pwait2(int fd, struct epoll_event* events, int size, const struct timespec* timeout,
                              const sigset_t* mask) {
    return noted(SYS_epoll_pwait2, Noted::nanoseconds(timeout),
                 [=] { return next<"epoll_pwait2">(&::epoll_pwait2)(fd, events, size, timeout, mask); });
}
