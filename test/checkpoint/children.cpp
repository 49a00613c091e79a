// Children in every state: zombies with their status, stopped ones (told of and not yet), one that waits,
// process groups and sessions with and without their leader, orphans, usage of the dead.
// rain: soak
// narrow: none
// heirs: exact
// still: user
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

void wait_for_state(pid_t pid, char wanted) {
    while (state(pid) != wanted) test::nap(1);
}
// It has just been restored: on a busy machine it takes it a moment to fall asleep again.
void check_sleeps(pid_t pid) {
    for (int i = 0; i < 10000 && state(pid) != 'S'; ++i) test::nap(1);
    CHECK(state(pid) == 'S');
}
int status_of(pid_t pid, int options = 0) {
    int status = 0;
    CHECK(waitpid(pid, &status, options) == pid);
    return status;
}

test::Check zombies() {
    const pid_t exited = born([] { _exit(42); });
    const pid_t killed = born([] { raise(SIGKILL); });
    const pid_t segv = born([] {
        prctl(PR_SET_DUMPABLE, 0);
        raise(SIGSEGV);
    });
    for (const pid_t pid : {exited, killed, segv}) wait_for_state(pid, 'Z');
    return [=](bool last) {
        for (const pid_t pid : {exited, killed, segv}) CHECK(state(pid) == 'Z');
        siginfo_t info = peek(exited, WEXITED);
        CHECK(info.si_pid == exited && info.si_code == CLD_EXITED && info.si_status == 42);
        info = peek(killed, WEXITED);
        CHECK(info.si_pid == killed && info.si_code == CLD_KILLED && info.si_status == SIGKILL);
        info = peek(segv, WEXITED);
        CHECK(info.si_pid == segv && info.si_status == SIGSEGV);
        CHECK(kill(exited, 0) == 0);  // a zombie is still there
        if (!last) return;
        CHECK(WEXITSTATUS(status_of(exited)) == 42);
        CHECK(WTERMSIG(status_of(killed)) == SIGKILL);
        CHECK(WTERMSIG(status_of(segv)) == SIGSEGV);
    };
}

// One that its parent has been told of, and one not yet.
test::Check stopped_ones() {
    const pid_t stopped = born(sleep_for_ever);
    const pid_t told = born(sleep_for_ever);
    CHECK(kill(stopped, SIGSTOP) == 0 && kill(told, SIGSTOP) == 0);
    CHECK(WSTOPSIG(status_of(told, WUNTRACED)) == SIGSTOP);
    wait_for_state(stopped, 'T');
    return [=](bool last) {
        CHECK(state(stopped) == 'T' && state(told) == 'T');
        const siginfo_t info = peek(stopped, WSTOPPED);
        CHECK(info.si_pid == stopped && info.si_code == CLD_STOPPED && info.si_status == SIGSTOP);
        CHECK(peek(told, WSTOPPED).si_pid == 0);  // already told
        if (!last) return;
        CHECK(WIFSTOPPED(status_of(stopped, WUNTRACED)));
        CHECK(kill(stopped, SIGCONT) == 0 && WIFCONTINUED(status_of(stopped, WCONTINUED)));
        CHECK(kill(told, SIGKILL) == 0 && WTERMSIG(status_of(told)) == SIGKILL);
        CHECK(kill(stopped, SIGKILL) == 0 && status_of(stopped) != 0);
    };
}

// A group whose leader is a zombie and its only member, and one of which a member lives.
test::Check leaderless_groups() {
    const pid_t leader = born([] { _exit(1); });
    CHECK(setpgid(leader, leader) == 0 || errno == EACCES || errno == ESRCH);
    const pid_t group_leader = born(sleep_for_ever);
    CHECK(setpgid(group_leader, group_leader) == 0);
    const pid_t member = born(sleep_for_ever);
    CHECK(setpgid(member, group_leader) == 0);
    CHECK(kill(group_leader, SIGTERM) == 0);
    for (const pid_t pid : {leader, group_leader}) wait_for_state(pid, 'Z');
    return [=](bool last) {
        for (const pid_t pid : {leader, group_leader}) CHECK(state(pid) == 'Z');
        check_sleeps(member);
        CHECK(peek(member, WEXITED).si_pid == 0);
        CHECK(getpgid(member) == group_leader && getsid(member) == getsid(0));
        CHECK(kill(-group_leader, 0) == 0);
        if (!last) return;
        CHECK(WEXITSTATUS(status_of(leader)) == 1);
        int status = 0;
        CHECK(waitpid(-group_leader, &status, 0) == group_leader && WTERMSIG(status) == SIGTERM);
        CHECK(kill(-group_leader, SIGKILL) == 0 && waitpid(member, &status, 0) == member);
    };
}

// Its member is our child because we are the subreaper.
test::Check leaderless_session() {
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
    CHECK(status_of(session) == 0);
    return [=](bool last) {
        check_sleeps(orphan);
        CHECK(getsid(orphan) == session && getpgid(orphan) == session && getpgid(0) != session);
        CHECK(kill(-session, 0) == 0);
        if (last) CHECK(kill(-session, SIGUSR1) == 0 && WTERMSIG(status_of(orphan)) == SIGUSR1);
    };
}

test::Check session_of_its_own() {
    const pid_t own_session = born([] {
        CHECK(setsid() == getpid());
        sleep_for_ever();
    });
    while (getsid(own_session) != own_session) test::nap(1);
    return [=](bool last) {
        check_sleeps(own_session);
        CHECK(getsid(own_session) == own_session && getpgid(own_session) == own_session);
        if (last) CHECK(kill(own_session, SIGHUP) == 0 && status_of(own_session) != 0);
    };
}

// For a child of its own.
test::Check asleep_in_waitpid() {
    auto* const grandchild = static_cast<volatile pid_t*>(
        mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(grandchild != MAP_FAILED);
    const pid_t waiting = fork();
    if (waiting == 0) {
        *grandchild = born([] {
            while (getppid() != 1) test::nap(10);
        });
        const int how = status_of(*grandchild);
        _exit(WIFSIGNALED(how) ? WTERMSIG(how) : 99);
    }
    test::nap(100);
    while (*grandchild == 0) test::nap(1);
    return [=](bool last) {
        check_sleeps(waiting);
        if (!last) return;
        CHECK(kill(*grandchild, SIGKILL) == 0);
        CHECK(WEXITSTATUS(status_of(waiting)) == SIGKILL);
    };
}

test::Check no_others() {
    return [](bool last) {
        if (last) CHECK(waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
    };
}
}  // namespace

int main() {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    test::serve({{"zombies", zombies},
                 {"stopped ones", stopped_ones},
                 {"groups without a living leader", leaderless_groups},
                 {"a session whose leader has gone", leaderless_session},
                 {"a session of its own", session_of_its_own},
                 {"asleep in waitpid", asleep_in_waitpid},
                 {"no other children", no_others}});
}
