// pidfd_open(2): of oneself, seen by a child as well, a child, the main thread, a zombie, one that has gone;
// in an epoll, asleep in poll and in waitid(P_PIDFD).
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace {

constexpr unsigned of_a_thread = O_EXCL;  // PIDFD_THREAD, since Linux 6.9

int pidfd(pid_t pid, unsigned flags = 0) {
    return static_cast<int>(syscall(SYS_pidfd_open, pid, flags));
}
int send(int fd, int signal) {
    return static_cast<int>(syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0));
}
bool ready(int fd) {
    pollfd polled{fd, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
}
// Ends with `status` when it is sent SIGTERM, at once when `at_once`.
pid_t start(int status, bool at_once = false) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) return child;
    if (at_once) _exit(status);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    for (int signal = 0; signal != SIGTERM;) sigwait(&set, &signal);
    _exit(status);
}

constexpr auto by_pidfd = static_cast<idtype_t>(3);  // P_PIDFD

// SIGUSR1: what the asker answers with.
sigset_t answers() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return set;
}

// Of oneself; passed on by fork to a child, which asks it as well.
test::Check of_oneself() {
    const sigset_t answer = answers();
    const int self = pidfd(getpid());
    CHECK(self >= 0);
    const pid_t asker = fork();
    if (asker == 0) {
        for (int signal;;) {
            sigwait(&answer, &signal);
            if (send(self, 0) != 0 || ready(self)) _exit(1);
            kill(getppid(), SIGUSR1);
        }
    }
    return [=](bool last) {
        CHECK(send(self, 0) == 0 && !ready(self) && (fcntl(self, F_GETFL) & O_NONBLOCK) == 0);
        CHECK(kill(asker, SIGUSR1) == 0);
        const timespec patience{20, 0};
        CHECK(sigtimedwait(&answer, nullptr, &patience) == SIGUSR1);
        if (last) CHECK(kill(asker, SIGKILL) == 0 && waitpid(asker, nullptr, 0) == asker);
    };
}

test::Check of_one_that_has_gone() {
    const pid_t gone = start(0, true);
    const int of_gone = pidfd(gone);
    CHECK(waitpid(gone, nullptr, 0) == gone);
    return [=](bool) { CHECK(ready(of_gone) && send(of_gone, 0) == -1 && errno == ESRCH); };
}

test::Check of_the_main_thread() {
    const int of_thread = pidfd(getpid(), of_a_thread);  // -1 on older kernels
    return [=](bool) {
        if (of_thread >= 0) CHECK(send(of_thread, 0) == 0 && !ready(of_thread));
    };
}

// A child that has ended, and was not waited for.
test::Check of_a_zombie() {
    siginfo_t info{};
    pid_t zombie = start(12, true);
    int of_zombie = pidfd(zombie);
    CHECK(waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT) == 0);
    return [=](bool) mutable {
        siginfo_t end{};
        CHECK(ready(of_zombie) && waitid(by_pidfd, static_cast<id_t>(of_zombie), &end, WEXITED) == 0);
        CHECK(end.si_pid == zombie && end.si_code == CLD_EXITED && end.si_status == 12);
        close(of_zombie);
        zombie = start(12, true);
        of_zombie = pidfd(zombie);
        CHECK(waitid(P_PID, static_cast<id_t>(zombie), &end, WEXITED | WNOWAIT) == 0);
    };
}

test::Check of_a_child() {
    pid_t child = start(11);
    int of_child = pidfd(child, O_NONBLOCK);
    const int epoll = epoll_create1(0);
    epoll_event event{EPOLLIN, {.u64 = 5}};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, of_child, &event) == 0);
    return [=](bool last) mutable {
        CHECK((fcntl(of_child, F_GETFL) & O_NONBLOCK) != 0);
        epoll_event got{};
        CHECK(!ready(of_child) && epoll_wait(epoll, &got, 1, 0) == 0);
        siginfo_t end{};
        CHECK(waitid(by_pidfd, static_cast<id_t>(of_child), &end, WEXITED) == -1 && errno == EAGAIN);
        CHECK(send(of_child, SIGTERM) == 0 && epoll_wait(epoll, &got, 1, 20000) == 1 && got.data.u64 == 5);
        CHECK(waitpid(child, nullptr, 0) == child && epoll_ctl(epoll, EPOLL_CTL_DEL, of_child, nullptr) == 0);
        close(of_child);
        child = start(11);
        of_child = pidfd(child, O_NONBLOCK);
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, of_child, &event) == 0);
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

std::atomic<int> polled_status{0};
std::atomic<bool> waited{false};

// Two threads sleep until the process ends.
void start_sleepers(int in) {
    waited = false;
    polled_status = 0;
    std::thread([in] {
        pollfd polled{in, POLLIN, 0};
        CHECK(poll(&polled, 1, -1) == 1);
        waited = true;
    }).detach();
    std::thread([in] {
        siginfo_t end{};
        // A process that has been waited for in poll first is still there for this.
        CHECK(waitid(by_pidfd, static_cast<id_t>(in), &end, WEXITED) == 0);
        polled_status = end.si_status;
    }).detach();
}

test::Check slept_for() {
    pid_t child = start(13);
    int slept = pidfd(child);
    start_sleepers(slept);
    return [=](bool last) mutable {
        CHECK(!waited && polled_status == 0 && send(slept, SIGTERM) == 0);
        for (int i = 0; i < 2000 && (!waited || polled_status == 0); ++i) test::nap(5);
        CHECK(waited && polled_status == 13);
        close(slept);
        child = start(13);
        slept = pidfd(child);
        start_sleepers(slept);
        if (last) CHECK(kill(child, SIGKILL) == 0);
    };
}

}  // namespace

int main() {
    const sigset_t answer = answers();  // blocked in every thread
    CHECK(sigprocmask(SIG_BLOCK, &answer, nullptr) == 0);
    test::serve({{"of a child that has gone", of_one_that_has_gone},
                 {"of a child that has ended", of_a_zombie},
                 {"of a child", of_a_child},
                 {"of the main thread", of_the_main_thread},
                 {"slept for", slept_for},
                 {"of oneself", of_oneself}});
}
