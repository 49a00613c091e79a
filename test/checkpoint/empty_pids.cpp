// Processes whose children are to be born into a pid namespace that has no process (unshare(2)): before the
// first birth, and when the first process there has ended, after which nobody can be born; with a child from
// before, and with a zombie of the first process.
// ci: exact virtual user
// narrow: none
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "own_space.h"

namespace {
using namespace own_space;

const volatile bool* last_round;

pid_t born(int code) {
    const pid_t child = fork();
    if (child == 0) _exit(getppid() == 0 && getpid() == code ? code : 99);
    return child;
}

void ends_with(pid_t pid, int code) {
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

bool has_link() {
    char text[64];
    return readlink("/proc/self/ns/pid_for_children", text, sizeof text) > 0;
}

void choose_pids(bool in_own_users) {
    if (in_own_users)
        be_root_of_ones_own(CLONE_NEWPID);
    else
        CHECK(unshare(CLONE_NEWPID) == 0);
}

// Its first process stays until the end, and two are born in there.
void bear_first() {
    CHECK(!has_link());
    if (!*last_round) return;
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends) == 0);
    const pid_t first = fork();
    if (first == 0) {
        close(ends[1]);
        CHECK(getpid() == 1 && getppid() == 0 && read(ends[0], &byte, 1) == 0);
        _exit(4);
    }
    CHECK(first > 1);
    ends_with(born(2), 2);
    close(ends[0]);
    close(ends[1]);
    ends_with(first, 4);
    CHECK(fork() == -1 && errno == ENOMEM);
}

test::Check unborn(bool in_own_users) {
    return [child = new Child(
                [=] {
                    choose_pids(in_own_users);
                    CHECK(!has_link());
                },
                bear_first)](bool last) { by(child)(last); };
}

test::Check unborn_beside_a_child(bool in_own_users) {
    static Child* before;
    return by(new Child(
        [=] {
            before = new Child([] { CHECK(getpid() > 2); }, [] { CHECK(getppid() > 1); });
            choose_pids(in_own_users);
        },
        [] {
            before->ask();
            bear_first();
            before->ask();
        }));
}

test::Check ended(bool in_own_users) {
    return by(new Child(
        [=] {
            choose_pids(in_own_users);
            ends_with(born(1), 1);
        },
        [] {
            CHECK(has_link());
            CHECK(fork() == -1 && errno == ENOMEM);
        }));
}

test::Check ended_zombie(bool in_own_users) {
    static pid_t zombie;
    return by(new Child(
        [=] {
            choose_pids(in_own_users);
            zombie = born(1);
            siginfo_t info{};
            CHECK(waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT) == 0);
        },
        [] {
            siginfo_t info{};
            CHECK(waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT) == 0 &&
                  info.si_pid == zombie);
            CHECK(fork() == -1 && errno == ENOMEM);
            if (*last_round) ends_with(zombie, 1);
        }));
}

std::function<test::Check()> told(test::Check (*make)(bool), bool in_own_users) {
    return [=] {
        const auto check = make(in_own_users);
        return [=](bool last) {
            *const_cast<volatile bool*>(last_round) = last;
            check(last);
        };
    };
}

}  // namespace

int main() {
    need_user_namespaces();
    void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    last_round = static_cast<volatile bool*>(shared);
    const test::Case first = {"unborn", told(unborn, true)},
                     beside = {"unborn, beside a child", told(unborn_beside_a_child, true)},
                     over = {"ended", told(ended, true)},
                     unreaped = {"ended, a zombie", told(ended_zombie, true)};
    if (user != 0) test::serve({first, beside, over, unreaped});
    test::serve({first,
                 beside,
                 over,
                 unreaped,
                 {"unborn, root's", told(unborn, false)},
                 {"unborn, root's, beside a child", told(unborn_beside_a_child, false)},
                 {"ended, root's", told(ended, false)},
                 {"ended, root's, a zombie", told(ended_zombie, false)}});
}
