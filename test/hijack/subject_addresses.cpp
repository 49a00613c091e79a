// Wrong addresses: the kernel's EFAULT reaches the program, as without us. Programs try a call on purpose so
// (Rust's library asks by statx(0, NULL, ...) whether there is such a call), and libc's headers declare most
// of these parameters as never null, which a compiler would believe in our wrappers.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "test/hijack/subject.h"

namespace subject {

// The compiler mustn't know the address.
template <class T>
static T* nowhere() {
    static T* volatile address = nullptr;
    return address;
}

#define REFUSED(call) EXPECT((errno = 0, (call) == -1 && errno == EFAULT))

int addresses(int, char**) {
    EXPECT(is_member());
    const auto path = [] { return nowhere<const char>(); };
    struct stat status;
    struct statx extended;
    char text[8];
    REFUSED(open(path(), O_RDONLY));
    REFUSED(open64(path(), O_RDONLY));
    REFUSED(openat(AT_FDCWD, path(), O_RDONLY));
    REFUSED(openat64(AT_FDCWD, path(), O_RDONLY));
    REFUSED(stat(path(), &status));
    REFUSED(lstat(path(), &status));
    REFUSED(fstatat(AT_FDCWD, path(), &status, 0));
    REFUSED(statx(0, path(), 0, STATX_ALL, nowhere<struct statx>()));
    REFUSED(statx(AT_FDCWD, path(), 0, STATX_ALL, &extended));
    REFUSED(access(path(), R_OK));
    REFUSED(faccessat(AT_FDCWD, path(), R_OK, 0));
    REFUSED(readlink(path(), text, sizeof text));
    REFUSED(readlinkat(AT_FDCWD, path(), text, sizeof text));
    REFUSED(chdir(path()));
    EXPECT((errno = 0, fopen(path(), "r") == nullptr && errno == EFAULT));
    REFUSED(execve(path(), nowhere<char* const>(), nowhere<char* const>()));

    timespec soon{0, 1};
    EXPECT(nanosleep(&soon, nullptr) == 0);
    REFUSED(nanosleep(nowhere<const timespec>(), nullptr));
    EXPECT(clock_nanosleep(CLOCK_MONOTONIC, 0, nowhere<const timespec>(), nullptr) == EFAULT);
    EXPECT(sigaction(SIGUSR1, nullptr, nullptr) == 0);
    EXPECT((errno = 0, waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));

    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    REFUSED(sendmsg(ends[0], nowhere<const msghdr>(), 0));
    REFUSED(recvmsg(ends[0], nowhere<msghdr>(), MSG_DONTWAIT));
    REFUSED(sendto(ends[0], nowhere<char>(), 1, 0, nullptr, 0));
    REFUSED(bind(ends[0], nowhere<const sockaddr>(), sizeof(sockaddr)));
    REFUSED(sendmmsg(ends[0], nowhere<mmsghdr>(), 1, 0));
    REFUSED(recvmmsg(ends[0], nowhere<mmsghdr>(), 1, MSG_DONTWAIT, nullptr));
    socklen_t size = sizeof(int);
    REFUSED(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, nowhere<int>(), &size));
    REFUSED(getsockopt(ends[0], SOL_SOCKET, SO_PEERCRED, text, nowhere<socklen_t>()));
    REFUSED(fcntl(ends[0], F_SETOWN_EX, nowhere<f_owner_ex>()));
    REFUSED(fcntl(ends[0], F_GETOWN_EX, nowhere<f_owner_ex>()));
    REFUSED(ioctl(ends[0], FIOSETOWN, nowhere<int>()));
    REFUSED(ioctl(ends[0], FIOGETOWN, nowhere<int>()));
    const int set = semget(IPC_PRIVATE, 1, 0600);
    EXPECT(set >= 0);
    REFUSED(semop(set, nowhere<sembuf>(), 1));
    REFUSED(semtimedop(set, nowhere<sembuf>(), 1, &soon));
    EXPECT(semctl(set, 0, IPC_RMID) == 0);
    return 0;
}

}  // namespace subject
