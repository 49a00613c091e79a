// signalfd(2): pending signals of process and thread, with their data; a mask that was changed; a reader
// asleep in it; one in an epoll; one inherited by a child, which reads its own signals by it.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>
#include <thread>

#include "support.h"

namespace {

const int plain = SIGUSR1, queued = SIGRTMIN + 2, watched = SIGRTMIN + 3, of_reader = SIGRTMIN + 4,
          of_child = SIGUSR2;

sigset_t set_of(std::initializer_list<int> signals) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : signals) sigaddset(&set, signal);
    return set;
}
bool ready(int fd, int milliseconds = 0) {
    pollfd polled{fd, POLLIN, 0};
    return poll(&polled, 1, milliseconds) == 1;
}
signalfd_siginfo take(int fd) {
    signalfd_siginfo info{};
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    return info;
}
void queue(pid_t pid, int signal, int value) {
    sigval word{};
    word.sival_int = value;
    CHECK(sigqueue(pid, signal, word) == 0);
}

}  // namespace

int main() {
    const sigset_t all = set_of({plain, queued, watched, of_reader, of_child});
    CHECK(sigprocmask(SIG_BLOCK, &all, nullptr) == 0);
    const sigset_t first = set_of({SIGHUP}), wanted = set_of({plain, queued}), for_epoll = set_of({watched}),
                   for_reader = set_of({of_reader}), for_child = set_of({of_child});
    const int signals = signalfd(-1, &first, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(signals >= 0 && signalfd(signals, &wanted, 0) == signals);
    const int in_epoll = signalfd(-1, &for_epoll, 0), slept_in = signalfd(-1, &for_reader, 0),
              inherited = signalfd(-1, &for_child, 0);
    const int epoll = epoll_create1(0);
    epoll_event event{EPOLLIN, {.u64 = 7}};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, in_epoll, &event) == 0);

    static std::atomic<int> read_by_thread{0}, woken{0};
    std::thread([=] {
        for (;;) read_by_thread += take(slept_in).ssi_int;
    }).detach();
    // Asleep in epoll_wait: it is woken by a signal that nobody but the signalfd takes.
    std::thread([=] {
        for (epoll_event got{};;) {
            CHECK(epoll_wait(epoll, &got, 1, -1) == 1 && got.data.u64 == 7);
            CHECK(take(in_epoll).ssi_signo == static_cast<unsigned>(watched));
            ++woken;
        }
    }).detach();
    const pid_t child = fork();
    if (child == 0)
        for (;;) {
            const signalfd_siginfo info = take(inherited);
            CHECK(info.ssi_pid == static_cast<unsigned>(getppid()));
            queue(getppid(), queued, info.ssi_int * 2);
        }
    CHECK(child > 0);

    int turns = 0;
    const auto send_all = [&] {
        for (int i = 1; i <= 3; ++i) queue(getpid(), queued, 100 * turns + i);
        CHECK(kill(getpid(), plain) == 0 && pthread_kill(pthread_self(), plain) == 0);
    };
    send_all();
    test::serve([&](bool last) {
        // The thread's own first, then the process's by number, of one number in the order that they were
        // sent.
        CHECK(ready(signals) && (fcntl(signals, F_GETFL) & O_NONBLOCK) != 0 &&
              fcntl(signals, F_GETFD) == FD_CLOEXEC);
        for (int i = 0; i < 2; ++i) {
            const signalfd_siginfo info = take(signals);
            CHECK(info.ssi_signo == static_cast<unsigned>(plain) &&
                  info.ssi_pid == static_cast<unsigned>(getpid()));
            CHECK(info.ssi_code == (i == 0 ? SI_TKILL : SI_USER));
        }
        for (int i = 1; i <= 3; ++i) {
            const signalfd_siginfo info = take(signals);
            CHECK(info.ssi_signo == static_cast<unsigned>(queued) && info.ssi_code == SI_QUEUE);
            CHECK(info.ssi_int == 100 * turns + i && info.ssi_uid == getuid());
        }
        signalfd_siginfo none;
        CHECK(!ready(signals) && read(signals, &none, sizeof none) == -1 && errno == EAGAIN);

        const int before = read_by_thread, were = woken;
        queue(getpid(), of_reader, 9);
        queue(getpid(), watched, 0);
        queue(child, of_child, 21);
        CHECK(ready(signals, 20000));
        const signalfd_siginfo answer = take(signals);
        CHECK(answer.ssi_int == 42 && answer.ssi_pid == static_cast<unsigned>(child));
        for (int i = 0; i < 2000 && (read_by_thread == before || woken == were); ++i) test::nap(5);
        CHECK(read_by_thread == before + 9 && woken == were + 1);
        ++turns;
        send_all();
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    });
}
