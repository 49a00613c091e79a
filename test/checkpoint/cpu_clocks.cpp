// CPU time: clocks of the process and of threads, clock(), times(), getrusage() go on from where they were; a
// child begins at nothing. Nothing is added for the time in between.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace {

// Until this thread has used so much more.
void burn(double seconds) {
    const double end = test::now(CLOCK_THREAD_CPUTIME_ID) + seconds;
    while (test::now(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}
double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}
struct Usage {
    double process, thread, user_and_system, ticks, by_clock, children, children_ticks;
};
Usage usage() {
    rusage self{}, children{};
    tms all{};
    CHECK(getrusage(RUSAGE_SELF, &self) == 0 && getrusage(RUSAGE_CHILDREN, &children) == 0);
    CHECK(times(&all) != -1);
    const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
    return {test::now(CLOCK_PROCESS_CPUTIME_ID),
            test::now(CLOCK_THREAD_CPUTIME_ID),
            seconds(self.ru_utime) + seconds(self.ru_stime),
            static_cast<double>(all.tms_utime + all.tms_stime) / tick,
            static_cast<double>(clock()) / CLOCKS_PER_SEC,
            seconds(children.ru_utime) + seconds(children.ru_stime),
            static_cast<double>(all.tms_cutime + all.tms_cstime) / tick};
}
// Of what this program does between two checks: threads that nap, a child of 0.1 s. A tenth of the time that
// passes is far more than that, on a slow machine as well: this is CPU time.
double most_between(double began) {
    return 0.5 + (test::now(CLOCK_REALTIME) - began) / 10;
}
// The kernel counts user and system time by the tick, and /proc rounds it.
void check_grown(const Usage& before, const Usage& now, double most) {
    constexpr double precise = 0, coarse = 0.05;
    const auto grown = [most](double was, double is, double slack) {
        return is >= was - slack && is < was + most;
    };
    CHECK(grown(before.process, now.process, precise) && grown(before.thread, now.thread, precise));
    CHECK(grown(before.by_clock, now.by_clock, 1e-6));
    CHECK(grown(before.user_and_system, now.user_and_system, coarse) &&
          grown(before.ticks, now.ticks, coarse));
    CHECK(grown(before.children, now.children, coarse) &&
          grown(before.children_ticks, now.children_ticks, coarse));
}
void run_child() {
    const pid_t child = fork();
    if (child == 0) {
        const Usage fresh = usage();
        _exit(fresh.process < 0.1 && fresh.thread < 0.1 && fresh.user_and_system < 0.1 &&
                      fresh.children < 0.01
                  ? (burn(0.1), 0)
                  : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

}  // namespace

int main() {
    static std::atomic<int> asked{0}, answered{0};
    static std::atomic<double> of_thread{0};
    std::thread([] {
        burn(0.3);
        for (;; test::nap(1)) {
            if (asked == answered) continue;
            of_thread = test::now(CLOCK_THREAD_CPUTIME_ID);
            ++answered;
        }
    }).detach();
    const auto ask_thread = [] {
        ++asked;
        while (asked != answered) test::nap(1);
        return of_thread.load();
    };
    burn(0.2);
    run_child();
    // It answers when it has used its share: on a busy machine that may be long after we have used ours.
    double thread_before = ask_thread();
    Usage before = usage();
    CHECK(before.process >= 0.4 && before.children >= 0.08);
    double began = test::now(CLOCK_REALTIME);
    test::serve([&](bool) {
        const Usage now = usage();
        const double most = most_between(began);
        check_grown(before, now, most);
        const double thread_now = ask_thread();
        CHECK(thread_now >= thread_before && thread_now >= 0.3 && thread_now < thread_before + most);
        run_child();
        before = usage();
        began = test::now(CLOCK_REALTIME);
        thread_before = thread_now;
        rusage of_this{};
        CHECK(getrusage(RUSAGE_THREAD, &of_this) == 0);
        CHECK(seconds(of_this.ru_utime) + seconds(of_this.ru_stime) >= 0.15);
        bool fresh = false;
        std::thread([&] { fresh = test::now(CLOCK_THREAD_CPUTIME_ID) < 0.1; }).join();
        CHECK(fresh);
    });
}
