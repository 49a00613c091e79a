// Calls that sleep until a timer of the program's own fires, at random against checkpoints: a wake-up that is
// lost makes a call sleep on. Usage: wakeups ROUNDS
#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>

#include "support.h"

namespace {
volatile sig_atomic_t fired = 0;
void on_alarm(int) {
    fired = fired + 1;
}

void arm(long microseconds) {
    const itimerval value{{0, 0}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &value, nullptr) == 0);
}

// A call that was ended by the one alarm.
struct Outcome {
    int result, number;
};
constexpr Outcome interrupted{-1, EINTR};
constexpr timespec long_time{20, 0};
sigset_t blocked, open_mask;

// The first three let the alarm in for as long as they sleep.
Outcome in_sigsuspend(long delay) {
    arm(delay);
    const int result = sigsuspend(&open_mask);
    return {result, errno};
}
Outcome in_ppoll(long delay) {
    arm(delay);
    const int result = ppoll(nullptr, 0, &long_time, &open_mask);
    return {result, errno};
}
Outcome in_pselect(long delay) {
    arm(delay);
    const int result = pselect(0, nullptr, nullptr, nullptr, &long_time, &open_mask);
    return {result, errno};
}
// Taken by a wait, not by the handler.
Outcome in_sigtimedwait(long delay) {
    arm(delay);
    siginfo_t info{};
    CHECK(sigtimedwait(&blocked, &info, &long_time) == SIGALRM);
    CHECK(fired == 0);
    fired = 1;
    return interrupted;
}
// These two can miss a timer that fires before they begin, with and without us: it fires again.
Outcome in_pause(long delay) {
    const itimerval value{{1, 0}, {0, delay}};
    CHECK(setitimer(ITIMER_REAL, &value, nullptr) == 0);
    CHECK(sigprocmask(SIG_UNBLOCK, &blocked, nullptr) == 0);
    if (fired == 0) CHECK(pause() == -1 && errno == EINTR);
    CHECK(sigprocmask(SIG_BLOCK, &blocked, nullptr) == 0);
    arm(0);
    CHECK(fired >= 1);
    fired = 1;
    return interrupted;
}
Outcome in_nanosleep(long delay) {
    const timespec time{1, 0};
    timespec left{};
    CHECK(sigprocmask(SIG_UNBLOCK, &blocked, nullptr) == 0);
    arm(delay);
    const int result = nanosleep(&time, &left);
    const int number = errno;
    CHECK(sigprocmask(SIG_BLOCK, &blocked, nullptr) == 0);
    CHECK(fired == 1);
    // The kernel's remainder counts the timer's slack: of a sleep that ends at once there is a bit more left
    // than was asked for.
    if (result == -1)
        CHECK(number == EINTR && (left.tv_sec == 0 || (left.tv_sec == 1 && left.tv_nsec < 1'000'000)));
    return interrupted;
}

struct Call {
    const char* name;
    Outcome (*sleep)(long delay);
    bool may_miss;
};
constexpr Call calls[] = {
    {"sigsuspend", in_sigsuspend, false},     {"ppoll", in_ppoll, false}, {"pselect", in_pselect, false},
    {"sigtimedwait", in_sigtimedwait, false}, {"pause", in_pause, true},  {"nanosleep", in_nanosleep, false}};
}  // namespace

int main(int argc, char** argv) {
    const long rounds = argc > 1 ? std::atol(argv[1]) : 1000;
    struct sigaction action {};
    action.sa_handler = on_alarm;  // without SA_RESTART: EINTR is what the program waits for
    CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &blocked, &open_mask) == 0);
    sigdelset(&open_mask, SIGALRM);
    test::say("READY");
    unsigned seed = 12345;
    for (long round = 0; round < rounds; ++round) {
        seed = seed * 1103515245U + 12345U;
        const long delay = 200 + static_cast<long>(seed >> 8) % 8000;
        const Call& call = calls[round % 6];
        test::case_name = call.name;
        fired = 0;
        const double began = test::now();
        errno = 0;
        const auto [result, number] = call.sleep(delay);
        if (result != -1 || number != EINTR || fired != 1) {
            std::fprintf(stderr, "FAILED round %ld kind %ld: result %d errno %d fired %d after %.3f s\n",
                         round, round % 6, result, number, static_cast<int>(fired), test::now() - began);
            return 1;
        }
        if (!call.may_miss && test::now() - began > 10) {
            std::fprintf(stderr, "FAILED round %ld kind %ld: %.3f s\n", round, round % 6,
                         test::now() - began);
            return 1;
        }
    }
    test::say("EXIT-SUCCESS");
    return 0;
}
