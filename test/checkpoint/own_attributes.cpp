// What single threads have for themselves: working folder, root folder and umask (unshare(2) with CLONE_FS,
// as Samba's and virtiofsd's), whether they may read the time stamp counter, for how long they want the
// processor at a time, and, as root, user and groups by raw system calls (as NFS-Ganesha's), with and without
// capabilities.
// ci: exact user
// narrow: none
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "asked_thread.h"
#include "step_over.h"
#include "support.h"

namespace {

std::string own(const std::string& name) {
    char text[1024];
    const ssize_t got = readlink(("/proc/thread-self/" + name).c_str(), text, sizeof text);
    CHECK(got > 0);
    return {text, static_cast<std::size_t>(got)};
}

std::string field(const std::string& name) {
    const int fd = open("/proc/thread-self/status", O_RDONLY);
    char text[8192] = "";
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    const std::string status = text;
    const auto at = status.find("\n" + name + ":");
    CHECK(at != std::string::npos);
    return status.substr(at + name.size() + 3, status.find('\n', at + 1) - at - name.size() - 3);
}

mode_t mask() {
    const mode_t was = umask(0);
    umask(was);
    return was;
}

test::Check folders() {
    CHECK(mkdir("threads", 0755) == 0 || errno == EEXIST);
    const std::string before = own("cwd");
    umask(022);
    auto* thread = new test::Asked(
        [] {
            CHECK(unshare(CLONE_FS) == 0 && chdir("threads") == 0);
            umask(0177);
        },
        [before] {
            CHECK(own("cwd") == before + "/threads" && mask() == 0177 && access("../threads", F_OK) == 0);
        });
    // It has left, too, and is where it was.
    auto* second =
        new test::Asked([] { CHECK(unshare(CLONE_FS) == 0); }, [before] { CHECK(own("cwd") == before); });
    return [=](bool) {
        CHECK(own("cwd") == before && mask() == 022);
        thread->ask();
        second->ask();
        CHECK(own("cwd") == before && mask() == 022);
        // What one of them does is nothing to the others.
        CHECK(chdir("/") == 0);
        second->ask();
        CHECK(chdir(before.c_str()) == 0);
    };
}

test::Check root_folder() {
    if (geteuid() != 0) return [](bool) {};
    CHECK(mkdir("threads/root", 0755) == 0 || errno == EEXIST);
    auto* thread = new test::Asked(
        [] { CHECK(unshare(CLONE_FS) == 0 && chroot("threads") == 0 && chdir("/root") == 0); },
        [] { CHECK(access("/root", F_OK) == 0 && access("/etc", F_OK) != 0); });
    return [=](bool) {
        thread->ask();
        CHECK(access("/etc", F_OK) == 0);
    };
}

// Root of a user namespace may become nobody else.
bool may_change_user() {
    const int fd = open("/proc/self/uid_map", O_RDONLY);
    char map[64] = "";
    CHECK(fd >= 0 && read(fd, map, sizeof map - 1) > 0 && close(fd) == 0);
    unsigned first = 0, outside = 0, count = 0;
    return geteuid() == 0 && std::sscanf(map, "%u %u %u", &first, &outside, &count) == 3 && count > 10000;
}

// libc's setresuid(3) would tell all threads.
test::Check user() {
    if (!may_change_user()) return [](bool) {};
    auto* powerless = new test::Asked(
        [] {
            const gid_t groups[] = {11, 12};
            CHECK(syscall(SYS_setgroups, 2, groups) == 0 && syscall(SYS_setresgid, 1001, 1002, 1003) == 0);
            CHECK(syscall(SYS_setresuid, 1004, 1005, 1006) == 0);
        },
        [] {
            CHECK(field("Uid") == "1004\t1005\t1006\t1005" && field("Gid") == "1001\t1002\t1003\t1002");
            CHECK(field("Groups") == "11 12 " && field("CapEff") == "0000000000000000");
        });
    // As file servers do it for a client.
    auto* server = new test::Asked(
        [] {
            syscall(SYS_setfsgid, 1007);
            syscall(SYS_setfsuid, 1008);
        },
        [] { CHECK(field("Uid") == "0\t0\t0\t1008" && field("Gid") == "0\t0\t0\t1007"); });
    const std::string all = field("CapEff"), groups = field("Groups");
    return [=](bool) {
        powerless->ask();
        server->ask();
        CHECK(field("Uid") == "0\t0\t0\t0" && field("Gid") == "0\t0\t0\t0" && field("Groups") == groups);
        CHECK(field("CapEff") == all);
    };
}

bool counter_is_forbidden() {
    int setting = 0;
    CHECK(prctl(PR_GET_TSC, &setting) == 0);
    const int before = test::stepped_over;
    asm volatile("rdtsc" : : : "rax", "rdx", "memory");
    CHECK((test::stepped_over != before) == (setting == PR_TSC_SIGSEGV));
    return test::stepped_over != before;
}

// Nobody who is forbidden to read it may ask for the time: clock_gettime(3) reads it.
test::Check time_stamp_counter() {
    test::step_over_forbidden();
    auto* thread = new test::Asked([] { CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0); },
                                   [] { CHECK(counter_is_forbidden()); });
    int orders[2], answers[2];
    CHECK(pipe(orders) == 0 && pipe(answers) == 0);
    const pid_t child = fork();
    if (child == 0) {
        CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0 && close(orders[1]) == 0);
        for (char order = 0; read(orders[0], &order, 1) == 1;)
            CHECK(counter_is_forbidden() && write(answers[1], &order, 1) == 1);
        _exit(0);
    }
    CHECK(child > 0 && close(orders[0]) == 0 && close(answers[1]) == 0);
    return [=, order = orders[1], answer = answers[0]](bool) {
        CHECK(!counter_is_forbidden());
        thread->ask();
        char byte = 'a';
        CHECK(write(order, &byte, 1) == 1 && read(answer, &byte, 1) == 1);
    };
}

// struct sched_attr of sched_setattr(2), for which glibc 2.36 has no declaration.
struct Scheduled {
    std::uint32_t size = sizeof(Scheduled), policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 0, deadline = 0, period = 0;
};

std::uint64_t slice() {
    Scheduled now;
    CHECK(syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) == 0);
    return now.runtime;
}

// Since Linux 6.12; before, 0 is told.
test::Check time_slice() {
    constexpr std::uint64_t wanted = 7'000'000;
    const std::uint64_t usual = slice();
    auto* thread = new test::Asked(
        [] {
            Scheduled attributes;
            attributes.nice = nice(0);
            attributes.runtime = wanted;
            CHECK(syscall(SYS_sched_setattr, 0, &attributes, 0) == 0);
        },
        [=] { CHECK(slice() == (usual == 0 ? 0 : wanted)); });
    return [=](bool) {
        thread->ask();
        CHECK(slice() == usual);
    };
}

}  // namespace

int main() {
    test::serve({{"folders", folders},
                 {"root folder", root_folder},
                 {"user", user},
                 {"time stamp counter", time_stamp_counter},
                 {"time slice", time_slice}});
}
