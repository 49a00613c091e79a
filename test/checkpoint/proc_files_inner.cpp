// Files that are held open of the proc of a pid namespace that a process has made for itself: in there, by
// several who share them, and by who is in a pid namespace below, which has no proc of its own.
// ci: exact virtual user
// narrow: none
// heirs: none
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <vector>

#include "own_space.h"
#include "proc_files.h"

namespace {
using namespace own_space;

// As fork(2).
pid_t born_into(unsigned long spaces) {
    return static_cast<pid_t>(syscall(SYS_clone, spaces | SIGCHLD, 0, 0, 0, 0));
}

std::function<pid_t()> birth(unsigned long spaces) {
    return [spaces] { return born_into(spaces); };
}

void mount_proc() {
    CHECK(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    CHECK(mount("proc", "/proc", "proc", 0, nullptr) == 0);
}

std::vector<test::Check> checks;

void verify_all() {
    for (const auto& check : checks) check(false);
}

void open_all() {
    checks = {proc_files::own_files(), proc_files::files_of_another(), proc_files::files_of_a_thread(),
              proc_files::files_of_the_dead()};
}

test::Check alone() {
    return by(new Child(
        [] {
            mount_proc();
            CHECK(getpid() == 1);
            open_all();
        },
        verify_all, birth(CLONE_NEWPID | CLONE_NEWNS)));
}

// What one reads the other one doesn't.
test::Check shared() {
    static int file, names;
    static Child* second;
    const auto at = [] { return lseek(file, 0, SEEK_CUR); };
    return by(new Child(
        [=] {
            mount_proc();
            file = open("/proc/1/status", O_RDONLY);
            names = open("/proc", O_RDONLY | O_DIRECTORY);
            char byte = 0;
            CHECK(file >= 0 && names >= 0 && read(file, &byte, 1) == 1 && byte == 'N');
            second = new Child([] {},
                               [=] {
                                   char letter = 0;
                                   CHECK(at() == 1 && read(file, &letter, 1) == 1 && letter == 'a');
                               });
        },
        [=] {
            CHECK(at() == 1);
            second->ask();
            CHECK(at() == 2 && lseek(file, 1, SEEK_SET) == 1);
            CHECK(proc_files::leads_to(names, "1/stat") && proc_files::leads_to(names, "2/stat") &&
                  !proc_files::leads_to(names, "1000/stat"));
        },
        birth(CLONE_NEWPID | CLONE_NEWNS)));
}

// There /proc tells what others are called in the namespace around.
test::Check below() {
    static Child* inner;
    static int first, own;
    return by(new Child(
        [] {
            mount_proc();
            inner = new Child(
                [] {
                    CHECK(getpid() == 1);
                    first = open("/proc/1/stat", O_RDONLY);
                    own = open("/proc/self/stat", O_RDONLY);
                    CHECK(first >= 0 && own >= 0);
                },
                [] {
                    CHECK(proc_files::text_of(first).starts_with("1 (") &&
                          proc_files::text_of(own).starts_with("2 ("));
                },
                birth(CLONE_NEWPID | CLONE_NEWNS));
        },
        [] { inner->ask(); }, birth(CLONE_NEWPID | CLONE_NEWNS)));
}

// Everything within a user namespace, as an ordinary user has to begin.
test::Check with_rights(test::Check (*set_up)()) {
    static std::vector<test::Check> inside;
    return by(new Child(
        [set_up] {
            be_root_of_ones_own();
            inside.push_back(set_up());
        },
        [] { inside.front()(false); }));
}

std::function<test::Check()> in_user_namespace(test::Check (*set_up)()) {
    return [set_up] { return with_rights(set_up); };
}

}  // namespace

int main() {
    need_user_namespaces();
    const test::Case one = {"in a user namespace, alone", in_user_namespace(alone)},
                     several = {"in a user namespace, shared", in_user_namespace(shared)},
                     nested = {"in a user namespace, below", in_user_namespace(below)};
    if (user != 0) test::serve({one, several, nested});
    test::serve({one, several, nested, {"alone", alone}, {"shared", shared}, {"below", below}});
}
