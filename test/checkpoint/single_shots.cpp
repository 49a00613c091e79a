// Timers that fire once, all the time: one that does so while the checkpoint looks at signals and timers is
// neither lost (its thread would wait for ever) nor fires twice.
// ci: exact user
// rain: soak
// narrow: none
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <random>

#include "support.h"

namespace {

constexpr int of_setitimer = 0;  // SIGALRM; the others have SIGRTMIN + their number
std::array<std::atomic<unsigned>, 6> count{};

void wait_for(int own, timer_t timer, long microseconds) {
    const double begin = test::now();
    if (own == of_setitimer) {
        const itimerval setting{{0, 0}, {0, microseconds}};
        CHECK(setitimer(ITIMER_REAL, &setting, nullptr) == 0);
    } else {
        const itimerspec setting{{0, 0}, {0, microseconds * 1000}};
        CHECK(timer_settime(timer, 0, &setting, nullptr) == 0);
    }
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, own == of_setitimer ? SIGALRM : SIGRTMIN + own);
    int got = 0;
    CHECK(sigwait(&awaited, &got) == 0);
    CHECK(test::now() - begin >= static_cast<double>(microseconds) / 1e6 - 0.0001);
}

void* shoot(void* argument) {
    const int own = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
    std::minstd_rand random(static_cast<unsigned>(own + 1));
    timer_t timer{};
    if (own != of_setitimer) {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGRTMIN + own;
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    }
    for (;;) {
        wait_for(own, timer, 200 + static_cast<long>(random() % 3000));
        ++count[static_cast<std::size_t>(own)];
    }
    return nullptr;
}

}  // namespace

int main() {
    sigset_t blocked;
    sigfillset(&blocked);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, nullptr) == 0);
    for (std::size_t i = 0; i < count.size(); ++i) {
        pthread_t thread{};
        CHECK(pthread_create(&thread, nullptr, shoot, reinterpret_cast<void*>(i)) == 0);
    }
    test::serve([&](bool) {
        std::array<unsigned, count.size()> before{};
        for (std::size_t i = 0; i < count.size(); ++i) before[i] = count[i];
        for (std::size_t i = 0; i < count.size(); ++i) {
            for (int turns = 0; turns < 4000 && count[i] < before[i] + 3; ++turns) test::nap(5);
            CHECK(count[i] >= before[i] + 3);
        }
    });
}
