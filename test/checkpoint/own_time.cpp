// Time namespaces that programs have made for themselves (unshare(2) with CLONE_NEWTIME): the clocks go on,
// and are ahead of those outside by as much as before; sleepers, timers and deadlines in them; a process that
// has chosen one for its children and isn't in it, before and after the first of them is born.
// ci: exact user
// narrow: none
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include <string>

#include "own_space.h"

namespace {
using namespace own_space;

constexpr double ahead_monotonic = 5000, ahead_boottime = 70000;

ino_t inode(const std::string& path) {
    struct stat status = {};
    CHECK(stat(path.c_str(), &status) == 0);
    return status.st_ino;
}

void choose_time() {
    be_root_of_ones_own(CLONE_NEWTIME);
    put("/proc/self/timens_offsets", "monotonic 5000 0\nboottime 70000 0\n");
}

// By which the clocks here are ahead of those of the parent, who writes his into the pipe.
class Outside {
  public:
    Outside() { CHECK(pipe2(ends_, O_CLOEXEC) == 0); }
    void tell() const {
        const double both[] = {test::now(CLOCK_MONOTONIC), test::now(CLOCK_BOOTTIME)};
        CHECK(write(ends_[1], both, sizeof both) == sizeof both);
    }
    void compare(double monotonic, double boottime) const {
        double both[2];
        CHECK(read(ends_[0], both, sizeof both) == sizeof both);
        const double first = test::now(CLOCK_MONOTONIC) - both[0],
                     second = test::now(CLOCK_BOOTTIME) - both[1];
        // Besides what the machine takes from the one look to the other.
        CHECK(first >= monotonic && first < monotonic + 30 && second >= boottime && second < boottime + 30);
    }

  private:
    int ends_[2] = {};
};

// Goes into the namespace of its children, as the child of somebody who has made it does.
test::Check in_ones_own() {
    auto* const outside = new Outside;
    auto* const deadline = new double(0);
    auto* const timer = new int(-1);
    auto* const monotonic = new double(0);
    auto* const child = new Child(
        [=] {
            choose_time();
            const int space = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
            CHECK(space >= 0 && setns(space, CLONE_NEWTIME) == 0 && close(space) == 0);
            *timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
            *deadline = test::now() + 3600;
            itimerspec when = {};
            when.it_value.tv_sec = static_cast<time_t>(*deadline);
            CHECK(*timer >= 0 && timerfd_settime(*timer, TFD_TIMER_ABSTIME, &when, nullptr) == 0);
            *monotonic = test::now();
        },
        [=] {
            CHECK(inode("/proc/self/ns/time") == inode("/proc/self/ns/time_for_children"));
            outside->compare(ahead_monotonic, ahead_boottime);
            const double now = test::now();
            CHECK(now >= *monotonic && now < *monotonic + 300);
            itimerspec left = {};
            CHECK(timerfd_gettime(*timer, &left) == 0);
            const double end = now + static_cast<double>(left.it_value.tv_sec);
            CHECK(end > *deadline - 3 && end < *deadline + 3);
        });
    return [=, check = by(child)](bool last) {
        outside->tell();
        CHECK(inode("/proc/self/ns/time") != inode("/proc/" + std::to_string(child->pid()) + "/ns/time"));
        check(last);
    };
}

// One sleeps until a point in time of its own clock.
test::Check asleep() {
    auto* const outside = new Outside;
    auto* const woken = new int[2];
    CHECK(pipe2(woken, O_CLOEXEC) == 0);
    auto* const sleeper = new pid_t(0);
    const auto begin = [=] {
        *sleeper = fork();
        CHECK(*sleeper >= 0);
        if (*sleeper != 0) return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        timespec until = {};
        CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
        until.tv_sec += test::is_watched() ? 3600 : 1;
        CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == 0);
        timespec now = {};
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        CHECK(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
        CHECK(write(woken[1], "w", 1) == 1);
        for (;;) pause();
    };
    auto* const child = new Child(
        [=] {
            choose_time();
            const int space = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
            CHECK(space >= 0 && setns(space, CLONE_NEWTIME) == 0 && close(space) == 0);
            begin();
        },
        [=] {
            outside->compare(ahead_monotonic, ahead_boottime);
            if (test::is_watched()) return;
            char byte = 0;
            CHECK(read(woken[0], &byte, 1) == 1);
            CHECK(kill(*sleeper, SIGKILL) == 0 && waitpid(*sleeper, nullptr, 0) == *sleeper);
            begin();
        });
    return [=, check = by(child)](bool last) {
        outside->tell();
        check(last);
    };
}

// `unshare -T` before the first fork, and with a child that is in it (`unshare -T --fork`).
template <bool has_a_child>
test::Check for_children() {
    auto* const outside = new Outside;
    auto* const old = new pid_t(0);
    auto* const child = new Child(
        [=] {
            choose_time();
            if (!has_a_child) return;
            *old = fork();
            CHECK(*old >= 0);
            if (*old == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) {
                    CHECK(test::now() > ahead_monotonic);
                    test::nap(5);
                }
            }
        },
        [=] {
            CHECK(inode("/proc/self/ns/time") != inode("/proc/self/ns/time_for_children"));
            if (has_a_child) CHECK(waitpid(*old, nullptr, WNOHANG) == 0);
            const pid_t born = fork();
            CHECK(born >= 0);
            if (born == 0) {
                outside->compare(ahead_monotonic, ahead_boottime);
                _exit(0);
            }
            int status = 0;
            CHECK(waitpid(born, &status, 0) == born && status == 0);
            outside->compare(0, 0);
        });
    return [=, check = by(child)](bool last) {
        outside->tell();
        outside->tell();
        check(last);
    };
}

}  // namespace

int main() {
    need_user_namespaces();
    const pid_t probe = fork();
    if (probe == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0) _exit(1);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(probe, &status, 0) == probe);
    if (status != 0) test::skip("no time namespaces");
    test::serve({
        {"in one's own", in_ones_own},
        {"asleep in one", asleep},
        {"for children", for_children<false>},
        {"for children, who are there", for_children<true>},
    });
}
