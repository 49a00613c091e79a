// Newcomers while there are virtual ids: whoever is born with a number that somebody goes by gets another;
// and numbers of the dead are forgotten.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hijack/raw.h"
#include "test/hijack/subject.h"
#include "test/hijack/subject_ids.h"

namespace raw = cairn::hijack::raw;
using cairn::KernelId;
using cairn::ProgramId;

namespace subject {
namespace {

constexpr int away = 3'000'000;  // where those seem to be whose numbers the newcomers get

// The kernel's next ids.
int last_pid() {
    const pid_t pid = vfork();
    if (pid == 0) _exit(0);
    waitpid(pid, nullptr, 0);
    FILE* file = std::fopen("/proc/sys/kernel/ns_last_pid", "r");
    EXPECT(file != nullptr);
    int last = 0;
    EXPECT(std::fscanf(file, "%d", &last) == 1);
    std::fclose(file);
    return last;
}

// Every id from here on is somebody's virtual id already.
void occupy(int from, int count) {
    for (int id = from; id < from + count; ++id)
        if (!cairn::bound_to(region()->ids, ProgramId(id)).known() &&
            !cairn::bound_to(region()->ids, KernelId(id)).known())
            EXPECT(cairn::insert_id(region()->ids, ProgramId(id), KernelId(away + id)));
}

void expect_child(pid_t pid) {
    int status = -1;
    EXPECT(pid > away);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(status == 0);
}

int knows_itself(pid_t parent) {
    return getpid() == raw::pid().number() + away && gettid() == getpid() && getppid() == parent &&
                   kill(getpid(), 0) == 0 && raise(0) == 0
               ? 0
               : 1;
}

void* thread_main(void* seen) {
    *static_cast<pid_t*>(seen) = gettid();
    EXPECT(gettid() == raw::tid().number() + away);
    for (;;) sleep(1000);
}

// Child: after an exec, in a new image.
int after_exec() {
    EXPECT(getpid() == raw::pid().number() + away && is_member());
    return 0;
}

// For whom the table has no place left he still has a number of his own.
void born_without_a_place() {
    region()->slot_limit = region()->slots_end.load();
    while (cairn::claim_slot(*region(), KernelId(1)) != cairn::no_slot) continue;
    occupy(last_pid() + 1, 4000);
    char* const no_environment[] = {nullptr};
    pid_t pid = -1;
    char name[] = "true";
    char* const other[] = {name, nullptr};
    EXPECT(posix_spawn(&pid, "/bin/true", nullptr, nullptr, other, no_environment) == 0);
    expect_child(pid);
    static char stack[65536];
    const auto end_at_once = [](void*) { return 0; };
    pid = clone(end_at_once, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    expect_child(pid);
}

void collisions() {
    occupy(last_pid() + 1, 4000);
    const pid_t me = getpid();
    pid_t pid = fork();
    if (pid == 0) _exit(knows_itself(me));
    expect_child(pid);
    pid = _Fork();
    if (pid == 0) _exit(knows_itself(me));
    expect_child(pid);
    char path[4096] = {}, name[] = "subject", command[] = "newcomers", exec[] = "exec";
    EXPECT(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    char* const arguments[] = {name, command, exec, nullptr};
    EXPECT(posix_spawn(&pid, path, nullptr, nullptr, arguments, environ) == 0);
    expect_child(pid);
    pid = vfork();
    if (pid == 0) {
        execv(path, arguments);
        _exit(1);
    }
    expect_child(pid);
    std::strcat(path, " newcomers exec");
    EXPECT(system(path) == 0);
    FILE* pipe_end = popen(path, "r");
    EXPECT(pipe_end != nullptr && pclose(pipe_end) == 0);
    for (int i = 0; i < 20; ++i) {
        pthread_t thread{};
        pid_t tid = 0;
        EXPECT(pthread_create(&thread, nullptr, thread_main, &tid) == 0);
        while (*static_cast<volatile pid_t*>(&tid) == 0) usleep(100);
        EXPECT(pthread_kill(thread, 0) == 0);
        EXPECT(pthread_cancel(thread) == 0);
        void* result = nullptr;
        EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
}

// Entries whose real id is the next to be given out: their owners must be dead.
void the_dead() {
    const int last = last_pid();
    for (int id = last + 1; id < last + 200; ++id) {
        const KernelId next(id), other = cairn::bound_to(region()->ids, ProgramId(id));
        if (other.known()) cairn::remove_id(region()->ids, ProgramId(id), other);
        const ProgramId name = cairn::bound_to(region()->ids, next);
        if (name.known()) cairn::remove_id(region()->ids, name, next);
        EXPECT(cairn::insert_id(region()->ids, ProgramId(far + id), next));
    }
    const pid_t pid = fork();
    if (pid == 0) _exit(getpid() == raw::pid().number() ? 0 : 1);
    int status = -1;
    EXPECT(pid > 0 && pid < far);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(!cairn::bound_to(region()->ids, ProgramId(far + pid)).known());
    for (int id = last + 1; id < last + 200; ++id)
        cairn::remove_id(region()->ids, ProgramId(far + id), KernelId(id));
}

}  // namespace

int newcomers(int argc, char** argv) {
    if (argc == 1 && std::strcmp(argv[0], "exec") == 0) return after_exec();
    EXPECT(getpid() == raw::pid().number() + far);
    collisions();
    traced_newcomer(false);
    traced_newcomer(true);
    the_dead();
    born_without_a_place();
    the_dead();
    return 0;
}

}  // namespace subject
