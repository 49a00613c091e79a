// Files of /proc/PID that are held open: of the process itself, of another member, of single threads, and of
// processes that have gone, where a sandbox may have its root folder.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include "proc_files.h"

#include <sched.h>

namespace {
using namespace proc_files;

int errno_of(const char* path) {
    struct stat status {};
    return stat(path, &status) == 0 ? 0 : errno;
}

int lock_in(void*) {
    return chdir("/proc/self/fdinfo") == 0 && chroot(".") == 0 ? 0 : 1;
}

// As sandboxes lock themselves in: the root folder is one of a process that has ended, and so there is
// nothing in it for ever.
test::Check root_of_the_dead() {
    if (geteuid() != 0) return [](bool) {};
    static int orders[2], answers[2];
    CHECK(pipe(orders) == 0 && pipe(answers) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        static char stack[65536];
        const pid_t helper = clone(lock_in, stack + sizeof stack, CLONE_FS | SIGCHLD, nullptr);
        int status = 1;
        CHECK(waitpid(helper, &status, 0) == helper && status == 0);
        const int of_root = errno_of("/"), of_proc = errno_of("/proc"), of_here = errno_of("x");
        CHECK(of_proc != 0 && of_here != 0);
        for (char byte = 'r';;) {
            CHECK(errno_of("/") == of_root && errno_of("/proc") == of_proc && errno_of("x") == of_here);
            CHECK(write(answers[1], &byte, 1) == 1 && read(orders[0], &byte, 1) == 1);
        }
    }
    const auto verify = [child](bool last) {
        char byte = 0, root[64] = {};
        CHECK(read(answers[0], &byte, 1) == 1);
        CHECK(readlink(("/proc/" + std::to_string(child) + "/root").c_str(), root, sizeof root - 1) > 0);
        CHECK(std::string(root).starts_with("/proc/") &&
              std::string(root).find("/fdinfo") != std::string::npos);
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
    verify(false);
    return [verify](bool last) {
        CHECK(write(orders[1], "r", 1) == 1);
        verify(last);
    };
}

}  // namespace

int main() {
    test::serve({{"own", own_files},
                 {"of another", files_of_another},
                 {"of a thread", files_of_a_thread},
                 {"of the dead", files_of_the_dead},
                 {"a root folder of the dead", root_of_the_dead}});
}
