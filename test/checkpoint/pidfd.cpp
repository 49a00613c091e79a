// pidfd_open(2): of oneself, seen by a child as well, a child, the main thread, other threads, a zombie, one
// that has gone; in an epoll, asleep in poll and in waitid(P_PIDFD).
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
#include <condition_variable>
#include <mutex>
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

// A thread that ends when it is told to. Its number, as soon as there is one.
struct Sleeper {
    Sleeper() {
        std::thread([this] {
            tid = gettid();
            std::unique_lock lock(mutex);
            wake.wait(lock, [this] { return ended; });
        }).detach();
        while (tid == 0) test::nap(1);
    }
    void end() {
        const std::scoped_lock lock(mutex);
        ended = true;
        wake.notify_all();
    }
    std::atomic<pid_t> tid{0};
    std::mutex mutex;
    std::condition_variable wake;
    bool ended = false;
};

// Twice by one description, one of them not for exec; and in an epoll, also by a number that is closed.
test::Check of_a_thread_of_ours() {
    auto* thread = new Sleeper;
    int first = pidfd(thread->tid, of_a_thread | O_NONBLOCK);
    if (first < 0) return [](bool) {};  // before Linux 6.9
    const int second = fcntl(first, F_DUPFD, 300);
    CHECK(second >= 300);
    const int epoll = epoll_create1(0);
    epoll_event event{EPOLLIN, {.u64 = 7}}, other{EPOLLIN | EPOLLONESHOT, {.u64 = 8}};
    const int passing = dup(first);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, first, &event) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, passing, &other) == 0 && close(passing) == 0);
    return [=](bool last) {
        for (const int fd : {first, second}) {
            CHECK(send(fd, 0) == 0 && !ready(fd));
            CHECK((fcntl(fd, F_GETFL) & (O_NONBLOCK | O_EXCL)) == (O_NONBLOCK | O_EXCL));
        }
        CHECK(fcntl(second, F_GETFD) == 0 && (fcntl(first, F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(fcntl(second, F_SETFL, 0) == 0 &&
              (fcntl(first, F_GETFL) & O_NONBLOCK) == 0);  // one description
        CHECK(fcntl(second, F_SETFL, O_NONBLOCK) == 0);
        epoll_event got[4];
        CHECK(epoll_wait(epoll, got, 4, 0) == 0);
        if (!last) return;
        thread->end();
        unsigned seen = 0;
        for (int tries = 0; tries < 4000 && seen != (7 | 8); ++tries) {
            const int count = epoll_wait(epoll, got, 4, 5);
            for (int i = 0; i < count; ++i) seen |= static_cast<unsigned>(got[i].data.u64);
        }
        CHECK(seen == (7 | 8) && ready(first) && ready(second));
    };
}

// A child's; it tells the number of its thread.
test::Check of_a_thread_of_another() {
    int tell[2];
    CHECK(pipe(tell) == 0);
    const pid_t child = fork();
    if (child == 0) {
        const auto* thread = new Sleeper;
        const pid_t tid = thread->tid;
        CHECK(write(tell[1], &tid, sizeof tid) == sizeof tid);
        for (;;) pause();
    }
    pid_t tid = 0;
    CHECK(read(tell[0], &tid, sizeof tid) == sizeof tid);
    const int fd = pidfd(tid, of_a_thread);
    return [=](bool last) {
        if (fd >= 0) CHECK(send(fd, 0) == 0 && !ready(fd));
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
        if (fd >= 0) CHECK(ready(fd));
    };
}

test::Check of_a_thread_that_has_gone() {
    auto* thread = new Sleeper;
    const int fd = pidfd(thread->tid, of_a_thread);
    thread->end();
    while (fd >= 0 && !ready(fd)) test::nap(1);
    return [=](bool) {
        if (fd < 0) return;
        CHECK(ready(fd) && send(fd, 0) == -1 && errno == ESRCH && (fcntl(fd, F_GETFL) & O_EXCL) != 0);
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
                 {"of a thread of ours", of_a_thread_of_ours},
                 {"of a thread of another process", of_a_thread_of_another},
                 {"of a thread that has gone", of_a_thread_that_has_gone},
                 {"slept for", slept_for},
                 {"of oneself", of_oneself}});
}
