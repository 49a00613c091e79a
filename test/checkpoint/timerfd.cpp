// timerfd_create(2): single and periodic, relative and absolute, of three clocks, disarmed, expired and not
// yet read, with a reader asleep in it, shared with a child.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <poll.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "support.h"

namespace {

bool ready(int fd) {
    pollfd polled{fd, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
}
int timer(clockid_t clock, int flags, double first, double interval, int how = 0) {
    const int fd = timerfd_create(clock, flags);
    CHECK(fd >= 0);
    const auto time = [](double seconds) {
        const auto whole = static_cast<time_t>(seconds);
        return timespec{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
    };
    const itimerspec value{time(interval), time(first)};
    CHECK(first == 0 || timerfd_settime(fd, how, &value, nullptr) == 0);
    return fd;
}
struct State {
    double left, interval;
};
State state(int fd) {
    itimerspec value{};
    CHECK(timerfd_gettime(fd, &value) == 0);
    const auto seconds = [](const timespec& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
    };
    return {seconds(value.it_value), seconds(value.it_interval)};
}
std::uint64_t take(int fd) {
    std::uint64_t ticks = 0;
    CHECK(read(fd, &ticks, sizeof ticks) == sizeof ticks);
    return ticks;
}

}  // namespace

int main() {
    const int single = timer(CLOCK_MONOTONIC, 0, 3000, 0), periodic = timer(CLOCK_BOOTTIME, 0, 1000.5, 77.25),
              disarmed = timer(CLOCK_REALTIME, TFD_NONBLOCK, 0, 0);
    const double civil = test::now(CLOCK_REALTIME) + 5000, steady = test::now() + 4000;
    const int at_civil = timer(CLOCK_REALTIME, 0, civil, 0, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET);
    const int at_steady = timer(CLOCK_MONOTONIC, 0, steady, 0, TFD_TIMER_ABSTIME);
    // Gone off, and nobody has read it.
    int expired = timer(CLOCK_MONOTONIC, TFD_NONBLOCK, 0.001, 0),
        ticking = timer(CLOCK_MONOTONIC, 0, 0.02, 0.02);
    const int fast = timer(CLOCK_MONOTONIC, 0, 0.03, 0.03);
    static std::atomic<int> ticks{0};
    std::thread([=] {
        for (;;) ticks += static_cast<int>(take(fast));
    }).detach();
    // Shared: both sleep in it, one of them gets each tick.
    const int shared = timer(CLOCK_MONOTONIC, 0, 0.04, 0.04);
    int counts[2];
    CHECK(pipe(counts) == 0);
    const pid_t child = fork();
    if (child == 0)
        for (;;) {
            const std::uint64_t got = take(shared);
            if (write(counts[1], &got, sizeof got) != sizeof got) _exit(1);
        }
    CHECK(child > 0);
    test::nap(60);

    double ticking_from = test::now() - 0.06;
    double single_left = 3000, periodic_left = 1000.5;
    test::serve([&](bool last) {
        State is = state(single);
        CHECK(is.left < single_left && is.left > single_left - 60 && is.interval == 0);
        single_left = is.left;
        is = state(periodic);
        CHECK(is.left < periodic_left && is.left > periodic_left - 60 && is.interval == 77.25);
        periodic_left = is.left;
        is = state(disarmed);
        CHECK(is.left == 0 && is.interval == 0 && !ready(disarmed));
        std::uint64_t none;
        CHECK(read(disarmed, &none, 8) == -1 && errno == EAGAIN);
        // Points in time stay where they were: on the civil clock, and on the program's own.
        is = state(at_civil);
        CHECK(std::abs(is.left - (civil - test::now(CLOCK_REALTIME))) < 1);
        is = state(at_steady);
        CHECK(std::abs(is.left - (steady - test::now())) < 1);

        CHECK(ready(expired) && take(expired) == 1 && !ready(expired) && state(expired).left == 0);
        close(expired);
        expired = timer(CLOCK_MONOTONIC, TFD_NONBLOCK, 0.001, 0);
        // One that ticks on while nobody reads it tells all ticks, and goes on.
        for (int i = 0; i < 2; ++i) {
            const double now = test::now();
            const double got = static_cast<double>(take(ticking)), periods = (now - ticking_from) / 0.02;
            CHECK(got <= periods + 3 && got >= 1);
            ticking_from = test::now();
            if (i == 0) test::nap(50);
        }
        is = state(ticking);
        CHECK(is.interval > 0.0199 && is.interval < 0.0201 && is.left <= 0.02);

        const int before = ticks;
        std::uint64_t of_child = 0;
        CHECK(read(counts[0], &of_child, sizeof of_child) == sizeof of_child && of_child >= 1);
        for (int i = 0; i < 400 && ticks < before + 3; ++i) test::nap(5);
        CHECK(ticks >= before + 3);
        test::nap(50);  // `expired` and `ticking` have gone off again when the next checkpoint comes
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    });
}
