// Every way to be born, with and without an exec after it: the child must be registered, a failed birth must
// leave nothing behind.
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "hijack/raw.h"
#include "test/hijack/subject.h"

namespace subject {
namespace {

char path[] = "/proc/self/exe";
char program[] = "subject";
char command[] = "member";
char* const arguments[] = {program, command, nullptr};
char self[4096];

void expect_good(pid_t pid) {
    int status = -1;
    EXPECT(pid > 0);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(status == 0);
}

template <class Fork>
void forked(Fork make) {
    const pid_t parent = getpid();
    const pid_t pid = make();
    if (pid == 0) _exit(is_member() && getppid() == parent ? 0 : 1);
    expect_good(pid);
}

int clone_main(void* argument) {
    return *static_cast<int*>(argument) == 7 && is_member() ? 0 : 1;
}

int shared_main(void*) {
    execv(path, arguments);
    return 2;
}

void cloned() {
    static char stack[65536];
    int seven = 7;
    expect_good(clone(clone_main, stack + sizeof stack, SIGCHLD, &seven));
    const pid_t pid = clone(shared_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &seven);
    expect_good(pid);
}

void daemonised() {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (daemon(1, 1) != 0) _exit(1);
        const char answer = is_member() ? 'y' : 'n';
        _exit(write(ends[1], &answer, 1) == 1 ? 0 : 1);
    }
    expect_good(pid);
    close(ends[1]);
    char answer = 0;
    EXPECT(read(ends[0], &answer, 1) == 1);
    EXPECT(answer == 'y');
    close(ends[0]);
}

void in_terminal() {
    int master = -1;
    const pid_t pid = forkpty(&master, nullptr, nullptr, nullptr);
    if (pid == 0) _exit(is_member() && isatty(0) ? 0 : 1);
    expect_good(pid);
    close(master);
}

void raw_fork() {  // unknown until it does something that we see
    const long pid = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) {
        const pid_t child = fork();
        if (child == 0) _exit(is_member() ? 0 : 1);
        int status = -1;
        waitpid(child, &status, 0);
        if (status != 0) _exit(2);
        execv(path, arguments);
        _exit(3);
    }
    expect_good(static_cast<pid_t>(pid));
}

volatile pid_t born_in_handler;
void fork_in_handler(int) {
    const pid_t pid = _Fork();
    if (pid == 0) _exit(is_member() ? 0 : 1);
    born_in_handler = pid;
}

void vforked() {
    pid_t pid = vfork();
    if (pid == 0) execv(path, arguments);
    expect_good(pid);
    pid = vfork();
    if (pid == 0) _exit(0);
    expect_good(pid);
    pid = vfork();
    if (pid == 0) {
        char* const nobody[] = {nullptr};
        execve("/nonexistent/program", arguments, nobody);
        _exit(errno == ENOENT ? 0 : 1);
    }
    expect_good(pid);
}

// Two returns with everything that the caller keeps in registers and on its stack alive.
[[gnu::noinline]] long vfork_keeps(long a, long b, long c, long d, long e, long f) {
    volatile long kept[4] = {a * 3, b * 5, c * 7, d * 11};
    const pid_t pid = vfork();
    if (pid == 0) _exit(static_cast<int>(kept[0] & 1));
    int status = 0;
    EXPECT(pid > 0);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WEXITSTATUS(status) == (kept[0] & 1));
    return a + b + c + d + e + f + kept[0] + kept[1] + kept[2] + kept[3];
}

void spawned() {
    pid_t pid = -1;
    EXPECT(posix_spawn(&pid, path, nullptr, nullptr, arguments, environ) == 0);
    expect_good(pid);
    char* const nobody[] = {nullptr};  // an empty environment is completed
    EXPECT(posix_spawn(&pid, path, nullptr, nullptr, arguments, nobody) == 0);
    expect_good(pid);
    EXPECT(posix_spawn(&pid, "/nonexistent/program", nullptr, nullptr, arguments, environ) == ENOENT);
    EXPECT(posix_spawnp(&pid, self, nullptr, nullptr, arguments, environ) == 0);
    expect_good(pid);
}

void by_libc() {
    char line[4200];
    std::snprintf(line, sizeof line, "%s member", self);
    EXPECT(system(line) == 0);
    FILE* pipe_end = popen(line, "r");
    EXPECT(pipe_end != nullptr);
    EXPECT(pclose(pipe_end) == 0);
    std::snprintf(line, sizeof line, "$(%s member && echo yes)", self);
    wordexp_t words = {};
    EXPECT(wordexp(line, &words, 0) == 0);
    EXPECT(words.we_wordc == 1 && std::strcmp(words.we_wordv[0], "yes") == 0);
    wordfree(&words);
}

void many_at_once() {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([i] {
            for (int n = 0; n < 20; ++n) {
                pid_t pid = -1;
                if (i % 4 == 0) EXPECT(posix_spawn(&pid, path, nullptr, nullptr, arguments, environ) == 0);
                if (i % 4 == 1)
                    EXPECT(posix_spawn(&pid, "/nonexistent", nullptr, nullptr, arguments, environ) != 0);
                if (i % 4 == 2 && (pid = fork()) == 0) _exit(is_member() ? 0 : 1);
                if (i % 4 == 3 && (pid = vfork()) == 0) {
                    execv(path, arguments);
                    _exit(3);
                }
                if (i % 4 != 1) expect_good(pid);
            }
        });
}

// Its children's pids mean nothing to the coordinator: they are named by their parent, or not at all.
void in_another_pid_namespace() {
    if (geteuid() != 0) return;
    const pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWPID) != 0) {
            std::fprintf(stderr, "no pid namespace can be had\n");
            _exit(errno == EPERM ? 0 : 4);
        }
        const pid_t first = fork();
        if (first == 0) {
            if (cairn::hijack::raw::pid().number() != 1 || getpid() != 1 || is_member()) _exit(1);
            const pid_t second = fork();
            if (second == 0) _exit(getpid() == 2 && system("exit 0") == 0 ? 0 : 2);
            expect_good(second);
            _exit(0);
        }
        expect_good(first);
        const std::int32_t slot = cairn::find_slot(*region(), cairn::KernelId(first));
        _exit(slot != cairn::no_slot && region()->slots[slot].foreign[0] == '\0' ? 0 : 3);
    }
    expect_good(pid);
}

int slots(cairn::SlotState state) {
    int found = 0;
    for (const auto& slot : region()->slots) found += slot.state.load() == state ? 1 : 0;
    return found;
}

void refused_by_kernel() {
    const int before = slots(cairn::SlotState::birth);
    // root is above this limit, so an ordinary user tries; with a region of his own he stays in the session.
    constexpr uid_t nobody = 65534;
    const bool root = geteuid() == 0;
    const auto owner = region()->user;
    if (root) region()->user = nobody;
    const rlimit none = {0, 4096};
    rlimit old = {};
    EXPECT(getrlimit(RLIMIT_NPROC, &old) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (root && (setgid(nobody) != 0 || setuid(nobody) != 0)) _exit(5);
        if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(6);
        const std::uint32_t tokens = region()->tokens.load();
        if (fork() != -1 || errno != EAGAIN) _exit(1);
        if (vfork() != -1 || errno != EAGAIN) _exit(2);
        pid_t spawned_pid = -1;
        if (posix_spawn(&spawned_pid, path, nullptr, nullptr, arguments, environ) != EAGAIN) _exit(3);
        // The wrappers had a slot for each.
        _exit(region()->tokens.load() == tokens + 3 ? 0 : 7);
    }
    expect_good(pid);
    region()->user = owner;
    const int after = slots(cairn::SlotState::birth);
    if (after != before) std::fprintf(stderr, "births before %d, after %d\n", before, after);
    EXPECT(after == before);
}

}  // namespace

int births(int, char**) {
    EXPECT(is_member());
    EXPECT(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    forked([] { return fork(); });
    forked([] { return _Fork(); });
    cloned();
    daemonised();
    in_terminal();
    raw_fork();
    vforked();
    EXPECT(vfork_keeps(1, 2, 3, 4, 5, 6) == 21 + 3 + 10 + 21 + 44);
    spawned();
    by_libc();
    struct sigaction action = {};
    action.sa_handler = fork_in_handler;
    EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
    EXPECT(raise(SIGUSR1) == 0);
    expect_good(born_in_handler);
    in_another_pid_namespace();
    refused_by_kernel();
    many_at_once();
    EXPECT(slots(cairn::SlotState::exec) == 0);
    // Without any of our variables left to it, libc's own children are members all the same.
    clearenv();
    by_libc();
    return 0;
}

}  // namespace subject
