// A daemon (daemon(3)) as it is left when all its ancestors but the program's own parent have ended: nobody
// leads its session, and who has adopted it is no member, and needn't be init. It stays in its session.
// narrow: none
#include <signal.h>
#include <sys/wait.h>

#include <initializer_list>

#include "support.h"

int main() {
    int said[2];
    CHECK(pipe(said) == 0);
    const pid_t leader = fork();
    CHECK(leader >= 0);
    if (leader == 0) {
        CHECK(setsid() == getpid());
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child != 0) _exit(0);
        for (int fd = 0; fd < 3; ++fd) {
            close(fd);
            CHECK(open("/dev/null", O_RDWR) == fd);
        }
        const pid_t own = getpid();
        CHECK(write(said[1], &own, sizeof own) == sizeof own);
        close(said[0]);
        close(said[1]);
        for (;;) pause();
    }
    pid_t daemon = 0;
    CHECK(read(said[0], &daemon, sizeof daemon) == sizeof daemon && daemon > 0);
    CHECK(waitpid(leader, nullptr, 0) == leader);
    test::serve([=](bool last) {
        CHECK(getsid(daemon) == leader && getpgid(daemon) == leader);
        CHECK(getsid(0) != leader && kill(daemon, 0) == 0);
        if (last) CHECK(kill(daemon, SIGKILL) == 0);
    });
}
