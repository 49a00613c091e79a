// Signals that the program ignores, all the time, while its threads sleep in calls that no kernel makes again
// once a signal has woken them: of an ignored signal nobody is woken. The kernel keeps ignored signals for
// threads that are traced, though, and gives them to others of the process.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "support.h"

namespace {

std::atomic<bool> over{false};  // the objects are being removed
int set, queue, poll_set;

void sleep_in_semop() {
    sembuf operation{0, -1, 0};
    const int done = semop(set, &operation, 1);
    if (!over) CHECK(done == 0);
}

void sleep_in_msgrcv() {
    long message[2];
    const ssize_t got = msgrcv(queue, message, sizeof message[1], 1, 0);
    if (!over) CHECK(got == 0);
}

void sleep_in_epoll_wait() {
    epoll_event event{};
    const int found = epoll_wait(poll_set, &event, 1, -1);
    if (!over) CHECK(found == 1);
}

}  // namespace

int main() {
    set = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    poll_set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(set >= 0 && queue >= 0 && poll_set >= 0);
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    for (void (*const sleeper)() :
         {sleep_in_semop, sleep_in_msgrcv, sleep_in_epoll_wait, sleep_in_semop, sleep_in_epoll_wait})
        std::thread(sleeper).detach();
    // Last: who forks or makes a thread blocks signals for a moment, and then they aren't ignored.
    const pid_t me = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        test::nap(100);
        while (getppid() == me) {
            // Whoever traces it lets signals through that the kernel drops else.
            if (test::is_watched()) {
                test::nap(1000);
                continue;
            }
            for (const int each : {SIGCHLD, SIGURG, SIGWINCH, SIGUSR1}) kill(me, each);
            timespec moment{0, 20'000};
            nanosleep(&moment, nullptr);
        }
        _exit(0);
    }
    test::serve([&](bool last) {
        test::nap(20);
        CHECK(waitpid(child, nullptr, WNOHANG) == 0);
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
        over = true;
        CHECK(semctl(set, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, nullptr) == 0);
    });
}
