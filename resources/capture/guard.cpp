#include "resources/capture/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace cairn::capture {

Result<Guard> Guard::begin(const char* name, const std::function<bool(int to)>& work) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    Fd from(ends[0]), to(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return fail_errno("fork");
    if (child == 0) {
        from.reset();
        sigset_t all;
        sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, nullptr);
        ::setsid();
        ::prctl(PR_SET_NAME, name, 0, 0, 0);
        ::_exit(work(to.get()) ? 0 : 1);
    }
    return Guard(child, std::move(from));
}

bool Guard::end() {
    if (pid_ == 0) return false;
    int status = 0;
    while (::waitpid(pid_, &status, __WALL) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status == 0;
}

}  // namespace cairn::capture
