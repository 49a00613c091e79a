// Waits that have a deadline on a clock which a reboot sets back: each of these threads waits again and
// again, for a moment that it knows, and looks at the clock when it wakes.
// rain: soak
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include <array>
#include <atomic>

#include "support.h"

namespace {
constexpr double step = 0.1;   // s, of each wait
constexpr double slack = 2.0;  // s; a clock that was set back or forward is off by many times that

timespec at(double moment) {
    const auto seconds = static_cast<time_t>(moment);
    return {seconds, static_cast<long>((moment - static_cast<double>(seconds)) * 1e9)};
}

// Each waits until `deadline` of `clock`, by an absolute or by a relative time.
void condition(double deadline) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = [] {
        pthread_condattr_t attributes;
        pthread_cond_t made;
        CHECK(pthread_condattr_init(&attributes) == 0 &&
              pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&made, &attributes) == 0);
        return made;
    }();
    const timespec until = at(deadline);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    int result = 0;
    while ((result = pthread_cond_timedwait(&never, &mutex, &until)) == 0) {
    }
    CHECK(result == ETIMEDOUT && pthread_mutex_unlock(&mutex) == 0);
}
void semaphore(double deadline) {
    static sem_t never;
    static const int made = sem_init(&never, 0, 0);
    const timespec until = at(deadline);
    CHECK(made == 0 && sem_clockwait(&never, CLOCK_MONOTONIC, &until) == -1 && errno == ETIMEDOUT);
}
void mutex(double deadline) {
    static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    static const int locked = pthread_mutex_lock(&held);
    const timespec until = at(deadline);
    CHECK(locked == 0 && pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
}
void absolute_sleep(double deadline) {
    const timespec until = at(deadline);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == 0);
}
void absolute_boottime(double deadline) {
    const double left = deadline - test::now();
    const timespec until = at(test::now(CLOCK_BOOTTIME) + left);
    CHECK(clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, nullptr) == 0);
}
double left_until(double deadline) {
    const double left = deadline - test::now();
    return left > 0 ? left : 0;
}
void relative_sleep(double deadline) {
    const timespec left = at(left_until(deadline));
    CHECK(nanosleep(&left, nullptr) == 0);
}
void polling(double deadline) {
    CHECK(poll(nullptr, 0, static_cast<int>(left_until(deadline) * 1e3) + 1) == 0);
}
void selecting(double deadline) {
    const timespec left = at(left_until(deadline));
    CHECK(pselect(0, nullptr, nullptr, nullptr, &left, nullptr) == 0);
}
void waiting_for_events(double deadline) {
    static const int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    CHECK(epoll_wait(epoll, &event, 1, static_cast<int>(left_until(deadline) * 1e3) + 1) == 0);
}
void waiting_for_a_signal(double deadline) {
    sigset_t none;
    sigemptyset(&none);
    sigaddset(&none, SIGRTMIN + 9);
    const timespec left = at(left_until(deadline));
    CHECK(sigtimedwait(&none, nullptr, &left) == -1 && errno == EAGAIN);
}
void timer_descriptor(double deadline) {
    static const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    const itimerspec setting{{0, 0}, at(deadline)};
    unsigned long long count = 0;
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, nullptr) == 0 &&
          read(fd, &count, sizeof count) == sizeof count && count == 1);
}
void timer_signal(double deadline) {
    static timer_t timer = [] {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGRTMIN + 8;  // blocked in all threads
        timer_t made{};
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &made) == 0);
        return made;
    }();
    const itimerspec setting{{0, 0}, at(deadline)};
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGRTMIN + 8);
    int got = 0;
    CHECK(timer_settime(timer, TIMER_ABSTIME, &setting, nullptr) == 0 && sigwait(&own, &got) == 0);
}

struct Waiter {
    const char* name;
    void (*wait)(double deadline);
    std::atomic<unsigned> count{0};
    std::atomic<double> latest{0};
};
std::array<Waiter, 12> waiters{{{"pthread_cond_timedwait", condition},
                                {"sem_clockwait", semaphore},
                                {"pthread_mutex_clocklock", mutex},
                                {"clock_nanosleep", absolute_sleep},
                                {"clock_nanosleep of CLOCK_BOOTTIME", absolute_boottime},
                                {"nanosleep", relative_sleep},
                                {"poll", polling},
                                {"pselect", selecting},
                                {"epoll_wait", waiting_for_events},
                                {"sigtimedwait", waiting_for_a_signal},
                                {"timerfd", timer_descriptor},
                                {"timer_create", timer_signal}}};

void* run(void* argument) {
    auto& waiter = *static_cast<Waiter*>(argument);
    for (;;) {
        const double deadline = test::now() + step;
        waiter.wait(deadline);
        const double late = test::now() - deadline;
        if (late < -0.002 || late > slack) {
            char text[200];
            std::snprintf(text, sizeof text, "FAILED %s woke %.3f s after its deadline", waiter.name, late);
            test::say(text);
            _exit(1);
        }
        ++waiter.count;
    }
    return nullptr;
}

// Leads this descriptor to the time namespace that the process is in? A restart makes a new one.
bool is_own_time(int fd) {
    struct stat held = {}, own = {};
    CHECK(fstat(fd, &held) == 0 && stat("/proc/self/ns/time", &own) == 0);
    return held.st_dev == own.st_dev && held.st_ino == own.st_ino;
}
}  // namespace

int main() {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN + 8);
    sigaddset(&blocked, SIGRTMIN + 9);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, nullptr) == 0);
    for (auto& waiter : waiters) {
        pthread_t thread;
        CHECK(pthread_create(&thread, nullptr, run, &waiter) == 0);
    }
    const int own_time = open("/proc/self/ns/time", O_RDONLY | O_CLOEXEC);
    test::serve([=, last = test::now(), boot = test::now(CLOCK_BOOTTIME)](bool) mutable {
        CHECK(own_time < 0 || is_own_time(own_time));
        // No clock of the program's has jumped, back or forth.
        CHECK(test::now() >= last && test::now() < last + 60);
        CHECK(test::now(CLOCK_BOOTTIME) >= boot && test::now(CLOCK_BOOTTIME) < boot + 60);
        last = test::now();
        boot = test::now(CLOCK_BOOTTIME);
        std::array<unsigned, waiters.size()> before{};
        for (size_t i = 0; i < waiters.size(); ++i) before[i] = waiters[i].count;
        // Nobody hangs. By the relative time that a loop takes, should the clock be wrong.
        for (int turns = 0; turns < 1000; ++turns) {
            bool all = true;
            for (size_t i = 0; i < waiters.size(); ++i) all = all && waiters[i].count >= before[i] + 2;
            if (all) return;
            test::nap(5);
        }
        for (size_t i = 0; i < waiters.size(); ++i) {
            if (waiters[i].count >= before[i] + 2) continue;
            char text[200];
            std::snprintf(text, sizeof text, "FAILED %s hangs", waiters[i].name);
            test::say(text);
        }
        _exit(1);
    });
}
