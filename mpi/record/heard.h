// What was said before an end that mpiexec turns into the end of everybody.
#pragma once

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

namespace cairn::mpi {

// Waits until standard error, if it is a pipe, has been read, at most a second. mpiexec (Hydra) hears of an
// abort, or of a process that failed, by another way than of what that process said before, and ends
// everybody at once: what it has not taken from the pipe by then is lost.
inline void wait_until_heard() {
    struct stat where = {};
    if (::fstat(STDERR_FILENO, &where) != 0 || !S_ISFIFO(where.st_mode)) return;
    for (int i = 0; i < 500; ++i) {
        int left = 0;
        if (::ioctl(STDERR_FILENO, FIONREAD, &left) != 0 || left == 0) return;
        const timespec moment{.tv_sec = 0, .tv_nsec = 2'000'000};
        ::nanosleep(&moment, nullptr);
    }
}

// Where every process of a job fails before MPI_Init, and for the same reason, one of them says so: the first
// that gets a name made of the text and of who has started it (an address of a socket, which goes with the
// process). True: it is this one, or it wasn't started by an mpiexec. Who has said it stays for the others,
// until they have come by here; so that there also is one when the first has failed: Hydra's mpiexec dies of
// SIGPIPE, with what it had not yet printed, when its proxy has lost all processes before it says to the
// proxy that it may end them.
inline bool is_first_to_say(const std::string& text) {
    if (std::getenv("PMI_RANK") == nullptr && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return true;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    // Behind a zero byte: of no file.
    const int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "cairn-mpi-%u-%d-%zx",
                                     ::getuid(), ::getppid(), std::hash<std::string>{}(text));
    const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const auto size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
    return socket < 0 || ::bind(socket, reinterpret_cast<const sockaddr*>(&name), size) == 0 ||
           errno != EADDRINUSE;
}

inline void stay_for_the_others() {
    if (std::getenv("PMI_RANK") == nullptr && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return;
    const timespec moment{.tv_sec = 0, .tv_nsec = 500'000'000};
    ::nanosleep(&moment, nullptr);
}

}  // namespace cairn::mpi
