// Leases (fcntl F_SETLEASE): who has one is told before another opens the file, by the signal that it chose,
// with the number of the descriptor.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
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

// Its holder has had the signal and takes its time; who wants to open the file waits.
struct Breaking {
    const char* name;
    int flags, type, how, becomes, fd = -1;
    pid_t other = 0;
};

test::Check leases_being_broken(int breaks, sigset_t set) {
    static Breaking all[] = {{"breaking-read", O_RDONLY, F_RDLCK, O_WRONLY, F_UNLCK},
                             {"breaking-write", O_RDWR, F_WRLCK, O_WRONLY, F_UNLCK},
                             {"breaking-down", O_RDONLY, F_WRLCK, O_RDONLY, F_RDLCK}};
    static const timespec patience{20, 0}, none{0, 0};
    const auto begin = [=](Breaking& each) {
        siginfo_t info{};
        CHECK(fcntl(each.fd, F_SETSIG, breaks) == 0 && fcntl(each.fd, F_SETLEASE, each.type) == 0);
        each.other = opener(each.name, each.how);
        CHECK(sigtimedwait(&set, &info, &patience) == breaks && info.si_fd == each.fd);
        CHECK(fcntl(each.fd, F_GETLEASE) == each.becomes);
    };
    for (Breaking& each : all) {
        close(open(each.name, O_WRONLY | O_CREAT, 0600));
        each.fd = open(each.name, each.flags);
        CHECK(each.fd >= 0);
        begin(each);
    }
    return [=](bool last) {
        CHECK(sigtimedwait(&set, nullptr, &none) == -1 && errno == EAGAIN);
        for (Breaking& each : all) {
            int status = -1;
            CHECK(fcntl(each.fd, F_GETLEASE) == each.becomes && waitpid(each.other, nullptr, WNOHANG) == 0);
            CHECK(fcntl(each.fd, F_SETLEASE, each.becomes) == 0);
            CHECK(waitpid(each.other, &status, 0) == each.other && status == 0);
            if (each.becomes != F_UNLCK) CHECK(fcntl(each.fd, F_SETLEASE, F_UNLCK) == 0);
            if (!last) begin(each);
        }
    };
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

    const auto being_broken = leases_being_broken(breaks, set);
    test::serve([&](bool last) {
        being_broken(last);
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
