// A static program that makes a pid namespace in a user namespace, and waits for the first process there,
// which says when it is born.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace {
bool write_to(const char* file, const char* text) {
    const int fd = open(file, O_WRONLY | O_CLOEXEC);
    const bool done = fd >= 0 && write(fd, text, strlen(text)) > 0;
    if (fd >= 0) close(fd);
    return done;
}
}  // namespace

int main() {
    prctl(PR_SET_NAME, "refused");  // as the program of which it is a part
    char users[64], groups[64];
    snprintf(users, sizeof users, "%u %u 1", getuid(), getuid());
    snprintf(groups, sizeof groups, "%u %u 1", getgid(), getgid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0 || !write_to("/proc/self/setgroups", "deny") ||
        !write_to("/proc/self/uid_map", users) || !write_to("/proc/self/gid_map", groups))
        return 1;
    const pid_t first = fork();
    if (first == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(1, ".", 1) != 1) return 1;
        for (;;) pause();
    }
    return first > 0 && waitpid(first, nullptr, 0) == first ? 0 : 1;
}
