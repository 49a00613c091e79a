// Timers of the program: setitimer, timer_create with signals, to a thread and none, disarmed and periodic
// ones.
// rain: soak
// ci: exact user
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <atomic>
#include <vector>

#include "support.h"

namespace {
std::atomic<int> alarms{0}, queued{0}, to_thread{0}, profile{0};
std::atomic<bool> stop{false};
std::atomic<pid_t> tid{0};
std::atomic<bool> wrong_thread{false}, wrong_value{false};

void on_alarm(int) {
    ++alarms;
}
void on_profile(int) {
    ++profile;
}
void on_queued(int, siginfo_t* info, void*) {
    if (info->si_code != SI_TIMER || info->si_value.sival_int != 99) wrong_value = true;
    ++queued;
}
void on_thread(int, siginfo_t*, void*) {
    if (gettid() != tid) wrong_thread = true;
    ++to_thread;
}
void* sleeper(void*) {
    tid = gettid();
    while (!stop) test::nap(20);
    return nullptr;
}
void handle(int signal, void (*simple)(int), void (*full)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_flags = SA_RESTART;
    if (full != nullptr) {
        action.sa_sigaction = full;
        action.sa_flags |= SA_SIGINFO;
    } else {
        action.sa_handler = simple;
    }
    CHECK(sigaction(signal, &action, nullptr) == 0);
}
double left(timer_t timer) {
    itimerspec value{};
    CHECK(timer_gettime(timer, &value) == 0);
    return static_cast<double>(value.it_value.tv_sec) + static_cast<double>(value.it_value.tv_nsec) / 1e9;
}

timer_t made(clockid_t clock, sigevent event) {
    timer_t timer = nullptr;
    CHECK(timer_create(clock, &event, &timer) == 0);
    return timer;
}
sigevent silent() {
    sigevent event{};
    event.sigev_notify = SIGEV_NONE;
    return event;
}
sigevent to_process() {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN + 3;
    event.sigev_value.sival_int = 99;
    return event;
}
void set(timer_t timer, const itimerspec& value) {
    CHECK(timer_settime(timer, 0, &value, nullptr) == 0);
}

constexpr itimerspec often{{0, 40000000}, {0, 40000000}}, in_an_hour{{0, 0}, {3600, 0}};
std::vector<timer_t> known;

// To the process, to a thread, by setitimer, of computing time.
test::Check periodic() {
    handle(SIGALRM, on_alarm, nullptr);
    handle(SIGVTALRM, on_profile, nullptr);
    handle(SIGRTMIN + 3, nullptr, on_queued);
    handle(SIGRTMIN + 4, nullptr, on_thread);
    const itimerval every{{0, 50000}, {0, 50000}};
    CHECK(setitimer(ITIMER_REAL, &every, nullptr) == 0);
    const itimerval computing{{0, 20000}, {0, 20000}};
    CHECK(setitimer(ITIMER_VIRTUAL, &computing, nullptr) == 0);
    const timer_t first = made(CLOCK_MONOTONIC, to_process());
    set(first, often);
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, sleeper, nullptr) == 0);
    while (tid == 0) test::nap(1);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN + 4;
    event._sigev_un._tid = tid;
    const timer_t threaded = made(CLOCK_MONOTONIC, event);
    set(threaded, often);
    known.insert(known.end(), {first, threaded});
    return [=](bool last) {
        const int a = alarms, q = queued, t = to_thread, p = profile;
        // On a busy machine time passes without us, and a thread that sleeps is woken late.
        const double begun = test::now(), patience = begun + 20;
        const auto enough = [&] {
            return alarms >= a + 3 && queued >= q + 4 && to_thread >= t + 4 && profile >= p + 2;
        };
        while (test::now() < begun + 0.4 || (!enough() && test::now() < patience)) {
            volatile long x = 0;  // computes: ITIMER_VIRTUAL counts nothing else
            for (int i = 0; i < 100000; ++i) x = x + i;
        }
        if (!enough())
            std::printf("alarms %d queued %d to the thread %d profile %d\n", alarms - a, queued - q,
                        to_thread - t, profile - p);
        CHECK(enough());
        const int periods = static_cast<int>((test::now() - begun) / 0.04);
        CHECK(alarms <= a + periods + 6 && queued <= q + periods + 6);  // no burst
        CHECK(!wrong_thread && !wrong_value);
        itimerval is{};
        CHECK(getitimer(ITIMER_REAL, &is) == 0 && is.it_interval.tv_usec == 50000 &&
              is.it_value.tv_usec <= 50000);
        if (!last) return;
        stop = true;
        CHECK(pthread_join(thread, nullptr) == 0);
    };
}

// Time goes on: never more is left than before, and nobody has slept for a minute.
test::Check far_away() {
    const itimerval far{{0, 0}, {5000, 0}};
    CHECK(setitimer(ITIMER_PROF, &far, nullptr) == 0);
    const timer_t distant = made(CLOCK_BOOTTIME, to_process()), quiet = made(CLOCK_MONOTONIC, silent());
    set(distant, in_an_hour);
    set(quiet, in_an_hour);
    known.insert(known.end(), {distant, quiet});
    return [=, distant_before = left(distant), quiet_before = left(quiet)](bool) mutable {
        itimerval is{};
        CHECK(getitimer(ITIMER_PROF, &is) == 0 && is.it_value.tv_sec > 4900 && is.it_interval.tv_sec == 0);
        CHECK(left(distant) < distant_before && left(distant) > distant_before - 60);
        CHECK(left(quiet) < quiet_before && left(quiet) > quiet_before - 60);
        distant_before = left(distant);
        quiet_before = left(quiet);
    };
}

test::Check disarmed() {
    const timer_t timer = made(CLOCK_MONOTONIC, to_process());
    known.push_back(timer);
    return [=](bool) {
        itimerspec value{};
        CHECK(timer_gettime(timer, &value) == 0 && value.it_value.tv_sec == 0 && value.it_value.tv_nsec == 0);
    };
}

// It leaves a hole in the ids. A new one works and has an id of its own.
test::Check deleted_and_new() {
    const timer_t deleted = made(CLOCK_REALTIME, to_process());
    known.push_back(made(CLOCK_MONOTONIC, silent()));  // behind the hole
    CHECK(timer_delete(deleted) == 0);
    return [=](bool) {
        itimerspec value{};
        CHECK(timer_gettime(deleted, &value) == -1 && errno == EINVAL);
        const timer_t fresh = made(CLOCK_MONOTONIC, silent());
        for (timer_t other : known) CHECK(fresh != other);
        CHECK(timer_delete(fresh) == 0);
    };
}

// At the end, in place of the periodic one.
test::Check new_alarm() {
    return [](bool last) {
        if (!last) return;
        const unsigned long_alarm = alarm(0);
        CHECK(long_alarm <= 1);
        alarms = 0;
        alarm(1);
        for (int i = 0; i < 300 && alarms == 0; ++i) test::nap(10);
        CHECK(alarms == 1);
    };
}
}  // namespace

int main() {
    test::serve({{"a timer that was deleted, and a new one", deleted_and_new},
                 {"periodic timers", periodic},
                 {"timers far away", far_away},
                 {"a timer that isn't armed", disarmed},
                 {"alarm", new_alarm}});
}
