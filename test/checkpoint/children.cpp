// Children in every state: zombies with their status, stopped ones (told of and not yet), one that waits,
// process groups and sessions with and without their leader, orphans, usage of the dead.
// rain: soak
// narrow: none
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <initializer_list>

#include "support.h"

namespace {
pid_t born(void (*life)()) {
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        life();
        _exit(0);
    }
    return pid;
}
void sleep_for_ever() {
    for (;;) pause();
}
char state(pid_t pid) {
    char path[64], text[512] = "";
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const int fd = open(path, O_RDONLY);
    if (fd < 0) return '-';
    CHECK(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return std::strrchr(text, ')')[2];
}
siginfo_t peek(pid_t pid, int options) {
    siginfo_t info{};
    CHECK(waitid(P_PID, static_cast<id_t>(pid), &info, options | WNOHANG | WNOWAIT) == 0);
    return info;
}
}  // namespace

int main() {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    const pid_t exited = born([] { _exit(42); });
    const pid_t killed = born([] { raise(SIGKILL); });
    const pid_t segv = born([] {
        prctl(PR_SET_DUMPABLE, 0);
        raise(SIGSEGV);
    });
    const pid_t stopped = born(sleep_for_ever);
    const pid_t told = born(sleep_for_ever);
    CHECK(kill(stopped, SIGSTOP) == 0 && kill(told, SIGSTOP) == 0);
    int status = 0;
    CHECK(waitpid(told, &status, WUNTRACED) == told && WSTOPSIG(status) == SIGSTOP);
    // A group of its own, whose leader is a zombie; a member lives.
    const pid_t leader = born([] { _exit(1); });
    CHECK(setpgid(leader, leader) == 0 || errno == EACCES || errno == ESRCH);
    const pid_t group_leader = born(sleep_for_ever);
    CHECK(setpgid(group_leader, group_leader) == 0);
    const pid_t member = born(sleep_for_ever);
    CHECK(setpgid(member, group_leader) == 0);
    CHECK(kill(group_leader, SIGTERM) == 0);
    // A session whose leader has gone: its member is our child because we are the subreaper.
    int tell[2];
    CHECK(pipe(tell) == 0);
    const pid_t session = fork();
    if (session == 0) {
        CHECK(setsid() == getpid());
        const pid_t orphan = fork();
        if (orphan == 0) sleep_for_ever();
        CHECK(write(tell[1], &orphan, sizeof orphan) == sizeof orphan);
        _exit(0);
    }
    pid_t orphan = 0;
    CHECK(read(tell[0], &orphan, sizeof orphan) == sizeof orphan);
    close(tell[0]);
    close(tell[1]);
    CHECK(waitpid(session, &status, 0) == session && status == 0);
    const pid_t own_session = born([] {
        CHECK(setsid() == getpid());
        sleep_for_ever();
    });
    // One that sleeps in waitpid for a child of its own.
    auto* const grandchild = static_cast<volatile pid_t*>(
        mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(grandchild != MAP_FAILED);
    const pid_t waiting = fork();
    if (waiting == 0) {
        *grandchild = born([] {
            while (getppid() != 1) test::nap(10);
        });
        int how = 0;
        CHECK(waitpid(*grandchild, &how, 0) == *grandchild);
        _exit(WIFSIGNALED(how) ? WTERMSIG(how) : 99);
    }
    test::nap(100);
    for (const pid_t pid : {exited, killed, segv, leader, group_leader}) {
        while (state(pid) != 'Z') test::nap(1);
    }
    while (state(stopped) != 'T' || *grandchild == 0 || getsid(own_session) != own_session) test::nap(1);

    test::serve([&](bool last) {
        for (const pid_t pid : {exited, killed, segv, leader, group_leader}) CHECK(state(pid) == 'Z');
        CHECK(state(stopped) == 'T' && state(told) == 'T');
        // They have just been restored: on a busy machine it takes them a moment to fall asleep again.
        for (const pid_t pid : {member, orphan, own_session, waiting}) {
            for (int i = 0; i < 10000 && state(pid) != 'S'; ++i) test::nap(1);
            CHECK(state(pid) == 'S');
        }
        siginfo_t info = peek(exited, WEXITED);
        CHECK(info.si_pid == exited && info.si_code == CLD_EXITED && info.si_status == 42);
        info = peek(killed, WEXITED);
        CHECK(info.si_pid == killed && info.si_code == CLD_KILLED && info.si_status == SIGKILL);
        info = peek(segv, WEXITED);
        CHECK(info.si_pid == segv && info.si_status == SIGSEGV);
        info = peek(stopped, WSTOPPED);
        CHECK(info.si_pid == stopped && info.si_code == CLD_STOPPED && info.si_status == SIGSTOP);
        info = peek(told, WSTOPPED);
        CHECK(info.si_pid == 0);  // already told
        info = peek(member, WEXITED);
        CHECK(info.si_pid == 0);
        CHECK(getpgid(member) == group_leader && getsid(member) == getsid(0));
        CHECK(getsid(orphan) == session && getpgid(orphan) == session && getpgid(0) != session);
        CHECK(getsid(own_session) == own_session && getpgid(own_session) == own_session);
        CHECK(kill(-group_leader, 0) == 0 && kill(-session, 0) == 0);
        CHECK(kill(exited, 0) == 0);  // a zombie is still there
        if (!last) return;
        CHECK(waitpid(exited, &status, 0) == exited && WEXITSTATUS(status) == 42);
        CHECK(waitpid(killed, &status, 0) == killed && WTERMSIG(status) == SIGKILL);
        CHECK(waitpid(segv, &status, 0) == segv && WTERMSIG(status) == SIGSEGV);
        CHECK(waitpid(leader, &status, 0) == leader && WEXITSTATUS(status) == 1);
        CHECK(waitpid(-group_leader, &status, 0) == group_leader && WTERMSIG(status) == SIGTERM);
        CHECK(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status));
        CHECK(kill(stopped, SIGCONT) == 0 && waitpid(stopped, &status, WCONTINUED) == stopped &&
              WIFCONTINUED(status));
        CHECK(kill(told, SIGKILL) == 0 && waitpid(told, &status, 0) == told && WTERMSIG(status) == SIGKILL);
        CHECK(kill(-group_leader, SIGKILL) == 0 && waitpid(member, &status, 0) == member);
        CHECK(kill(-session, SIGUSR1) == 0 && waitpid(orphan, &status, 0) == orphan &&
              WTERMSIG(status) == SIGUSR1);
        CHECK(kill(stopped, SIGKILL) == 0 && waitpid(stopped, &status, 0) == stopped);
        CHECK(kill(own_session, SIGHUP) == 0 && waitpid(own_session, &status, 0) == own_session);
        CHECK(kill(*grandchild, SIGKILL) == 0);
        CHECK(waitpid(waiting, &status, 0) == waiting && WEXITSTATUS(status) == SIGKILL);
        CHECK(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    });
}
