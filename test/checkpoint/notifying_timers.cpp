// POSIX timers that tell a thread of libc's (SIGEV_THREAD) or one that has ended, that count CPU time of the
// process, of this thread, of another one and of another process, and that are set to a point in time.
// ci: exact user
// rain: soak
// narrow: none
// heirs: user
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace {

std::atomic<int> told{0}, of_process{0}, of_thread{0}, of_other{0}, of_child{0}, wrong{0};

void on_signal(int, siginfo_t* info, void*) {
    if (info->si_code != SI_TIMER) ++wrong;
    if (info->si_value.sival_int == 1) ++of_process;
    if (info->si_value.sival_int == 2) ++of_thread;
    if (info->si_value.sival_int == 3) ++of_other;
    if (info->si_value.sival_int == 6) ++of_child;
}

timer_t make(clockid_t clock, int value, const itimerspec& when, int flags = 0) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN + 2;
    event.sigev_value.sival_int = value;
    timer_t timer = nullptr;
    CHECK(timer_create(clock, &event, &timer) == 0 && timer_settime(timer, flags, &when, nullptr) == 0);
    return timer;
}

// A process that computes while it is told to.
pid_t make_child(const std::atomic<bool>* compute) {
    const pid_t child = fork();
    if (child != 0) return child;
    for (;; test::nap(1))
        while (*compute) {
        }
}

// Nobody is left whom it could tell.
void tell_the_dead() {
    std::thread([] {
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGRTMIN + 2;
        event._sigev_un._tid = gettid();
        const itimerspec often{{0, 20'000'000}, {0, 20'000'000}};
        timer_t timer = nullptr;
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
              timer_settime(timer, 0, &often, nullptr) == 0);
    }).join();
}

double left(timer_t timer) {
    itimerspec value{};
    CHECK(timer_gettime(timer, &value) == 0);
    return static_cast<double>(value.it_value.tv_sec) + static_cast<double>(value.it_value.tv_nsec) / 1e9;
}

}  // namespace

int main() {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    CHECK(sigaction(SIGRTMIN + 2, &action, nullptr) == 0);
    auto& compute = *static_cast<std::atomic<bool>*>(
        mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const pid_t child = make_child(&compute);
    std::thread other([&compute] {
        for (;; test::nap(1))
            while (compute) {
            }
    });
    clockid_t others = 0;
    CHECK(pthread_getcpuclockid(other.native_handle(), &others) == 0);
    other.detach();
    const itimerspec often{{0, 20'000'000}, {0, 20'000'000}};
    make(CLOCK_PROCESS_CPUTIME_ID, 1, often);
    make(CLOCK_THREAD_CPUTIME_ID, 2, often);
    make(others, 3, often);
    clockid_t childs = 0;
    CHECK(child > 0 && clock_getcpuclockid(child, &childs) == 0);
    make(childs, 6, often);
    tell_the_dead();
    timespec now{};
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    const timer_t appointment =
        make(CLOCK_MONOTONIC, 4, {{0, 0}, {now.tv_sec + 5000, now.tv_nsec}}, TIMER_ABSTIME);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_value.sival_int = 5;
    event.sigev_notify_function = [](sigval value) {
        if (value.sival_int != 5) ++wrong;
        ++told;
    };
    timer_t telling = nullptr;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &telling) == 0 &&
          timer_settime(telling, 0, &often, nullptr) == 0);

    double before = left(appointment);
    test::serve([&](bool) {
        const int t = told, p = of_process, h = of_thread, o = of_other, c = of_child;
        compute = true;
        const double patience = test::now() + 30;
        while ((told < t + 3 || of_process < p + 3 || of_thread < h + 3 || of_other < o + 3 ||
                of_child < c + 3) &&
               test::now() < patience) {
        }
        compute = false;
        CHECK(told >= t + 3 && of_process >= p + 3 && of_thread >= h + 3 && of_other >= o + 3);
        CHECK(of_child >= c + 3 && wrong == 0);
        CHECK(left(appointment) < before && left(appointment) > before - 60);
        before = left(appointment);
    });
}
