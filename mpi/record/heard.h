// What was said before an end that mpiexec turns into the end of everybody.
#pragma once

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

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

// The same where every process fails before MPI_Init. Hydra's mpiexec dies of SIGPIPE, with what it had not
// yet printed, when its proxy has lost all processes before it says to the proxy that it may end them: the
// others leave that to it, so that one is there when the first has failed.
inline void wait_until_heard_of_first() {
    wait_until_heard();
    const char* rank = std::getenv("PMI_RANK");
    const timespec moment{.tv_sec = 0, .tv_nsec = 200'000'000};
    if (std::getenv("PMI_FD") != nullptr && rank != nullptr && std::atoi(rank) != 0)
        ::nanosleep(&moment, nullptr);
}

}  // namespace cairn::mpi
