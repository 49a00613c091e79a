// pidfd_open(2): of oneself, seen by a child as well, a child, the main thread, a zombie, one that has gone;
// in an epoll, asleep in poll and in waitid(P_PIDFD).
// ci: exact user
// rain: soak
// narrow: none
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>
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

}  // namespace

int main() {
    sigset_t answer;
    sigemptyset(&answer);
    sigaddset(&answer, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &answer, nullptr) == 0);
    const int self = pidfd(getpid());
    CHECK(self >= 0);
    pid_t child = start(11), zombie = start(12, true), slept_for = start(13);
    const pid_t gone = start(0, true);
    int of_child = pidfd(child, O_NONBLOCK), of_zombie = pidfd(zombie);
    const int of_gone = pidfd(gone);
    CHECK(waitpid(gone, nullptr, 0) == gone);
    siginfo_t info{};
    CHECK(waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT) == 0);
    const int epoll = epoll_create1(0);
    epoll_event event{EPOLLIN, {.u64 = 5}};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, of_child, &event) == 0);

    const int of_thread = pidfd(getpid(), of_a_thread);  // -1 on older kernels

    // Asleep until the process ends.
    static std::atomic<int> slept{pidfd(slept_for)}, polled_status{0};
    static std::atomic<bool> waited{false};
    const auto sleepers = [] {
        waited = false;
        polled_status = 0;
        const int in = slept;
        std::thread([in] {
            pollfd polled{in, POLLIN, 0};
            CHECK(poll(&polled, 1, -1) == 1);
            waited = true;
        }).detach();
        std::thread([in] {
            siginfo_t end{};
            // P_PIDFD. A process that has been waited for in poll first is still there for this.
            CHECK(waitid(static_cast<idtype_t>(3), static_cast<id_t>(in), &end, WEXITED) == 0);
            polled_status = end.si_status;
        }).detach();
    };
    sleepers();
    // Of a parent, passed on by fork: the child asks it, not we.
    const pid_t asker = fork();
    if (asker == 0) {
        for (int signal;;) {
            sigwait(&answer, &signal);
            if (send(self, 0) != 0 || ready(self)) _exit(1);
            kill(getppid(), SIGUSR1);
        }
    }

    test::serve([&](bool last) {
        CHECK(send(self, 0) == 0 && !ready(self));
        CHECK((fcntl(of_child, F_GETFL) & O_NONBLOCK) != 0 && (fcntl(self, F_GETFL) & O_NONBLOCK) == 0);
        CHECK(ready(of_gone) && send(of_gone, 0) == -1 && errno == ESRCH);
        if (of_thread >= 0) CHECK(send(of_thread, 0) == 0 && !ready(of_thread));

        CHECK(kill(asker, SIGUSR1) == 0);
        const timespec patience{20, 0};
        CHECK(sigtimedwait(&answer, nullptr, &patience) == SIGUSR1);

        // A child that has ended, and was not waited for.
        siginfo_t end{};
        CHECK(ready(of_zombie) &&
              waitid(static_cast<idtype_t>(3), static_cast<id_t>(of_zombie), &end, WEXITED) == 0);
        CHECK(end.si_pid == zombie && end.si_code == CLD_EXITED && end.si_status == 12);
        close(of_zombie);
        zombie = start(12, true);
        of_zombie = pidfd(zombie);
        CHECK(waitid(P_PID, static_cast<id_t>(zombie), &end, WEXITED | WNOWAIT) == 0);

        epoll_event got{};
        CHECK(!ready(of_child) && epoll_wait(epoll, &got, 1, 0) == 0);
        CHECK(waitid(static_cast<idtype_t>(3), static_cast<id_t>(of_child), &end, WEXITED) == -1 &&
              errno == EAGAIN);
        CHECK(send(of_child, SIGTERM) == 0 && epoll_wait(epoll, &got, 1, 20000) == 1 && got.data.u64 == 5);
        CHECK(waitpid(child, nullptr, 0) == child && epoll_ctl(epoll, EPOLL_CTL_DEL, of_child, nullptr) == 0);
        close(of_child);
        child = start(11);
        of_child = pidfd(child, O_NONBLOCK);
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, of_child, &event) == 0);

        CHECK(!waited && polled_status == 0 && send(slept, SIGTERM) == 0);
        for (int i = 0; i < 2000 && (!waited || polled_status == 0); ++i) test::nap(5);
        CHECK(waited && polled_status == 13);
        close(slept);
        slept_for = start(13);
        slept = pidfd(slept_for);
        sleepers();
        if (!last) return;
        for (const pid_t pid : {asker, child, slept_for}) CHECK(kill(pid, SIGKILL) == 0);
        CHECK(waitpid(asker, nullptr, 0) == asker && waitpid(child, nullptr, 0) == child);
    });
}
