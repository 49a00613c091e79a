// Leases (fcntl F_SETLEASE): who has one is told before another opens the file, by the signal that it chose,
// with the number of the descriptor.
// ci: exact user
// rain: soak
// narrow: none
#include <signal.h>
#include <sys/wait.h>

#include <initializer_list>

#include "support.h"

namespace {

int leased(const char* name, int flags, int type, int signal) {
    const int fd = open(name, flags, 0600);
    CHECK(fd >= 0 && fcntl(fd, F_SETSIG, signal) == 0);
    if (fcntl(fd, F_SETLEASE, type) != 0) test::skip("no leases on this file system");
    return fd;
}
// Another process opens the file, and comes through when the lease has been given up.
pid_t opener(const char* name, int flags) {
    const pid_t child = fork();
    if (child == 0) {
        const int fd = open(name, flags);
        _exit(fd >= 0 ? 0 : 1);
    }
    CHECK(child > 0);
    return child;
}

}  // namespace

int main() {
    const int breaks = SIGRTMIN + 1;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, breaks);
    CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
    for (const char* name : {"read", "write"}) close(open(name, O_WRONLY | O_CREAT, 0600));
    const int read_lease = leased("read", O_RDONLY, F_RDLCK, breaks),
              write_lease = leased("write", O_RDWR, F_WRLCK, breaks);

    test::serve([&](bool) {
        CHECK(fcntl(read_lease, F_GETLEASE) == F_RDLCK && fcntl(write_lease, F_GETLEASE) == F_WRLCK);
        const timespec none{0, 100000000}, patience{20, 0};
        siginfo_t info{};
        int status = 0;
        // Reading beside a read lease is nobody's business.
        const pid_t harmless = opener("read", O_RDONLY);
        CHECK(waitpid(harmless, &status, 0) == harmless && status == 0);
        CHECK(sigtimedwait(&set, nullptr, &none) == -1 && errno == EAGAIN);
        const auto broken = [&](const char* name, int fd, int how, int type) {
            const pid_t other = opener(name, how);
            CHECK(sigtimedwait(&set, &info, &patience) == breaks && info.si_fd == fd);
            CHECK(waitpid(other, nullptr, WNOHANG) == 0);
            CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && waitpid(other, &status, 0) == other && status == 0);
            // Giving one up forgets the signal as well.
            CHECK(fcntl(fd, F_SETSIG, breaks) == 0 && fcntl(fd, F_GETLEASE) == F_UNLCK);
            CHECK(fcntl(fd, F_SETLEASE, type) == 0);
        };
        broken("read", read_lease, O_WRONLY, F_RDLCK);
        broken("write", write_lease, O_RDONLY, F_WRLCK);
    });
}
