// What a process carries with it: working directory, umask, limits, niceness, scheduling, affinity, name,
// argv and environment as ps shows them, dumpable, parent-death signal, subreaper, timer slack, brk,
// executable.
// rain: soak
// narrow: none
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <string>

#include "support.h"

namespace {
std::string file(const char* path) {
    const int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    std::string text;
    char part[4096];
    for (ssize_t got; (got = read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
    close(fd);
    return text;
}
std::string link(const char* path) {
    char text[1024];
    const ssize_t got = readlink(path, text, sizeof text);
    CHECK(got > 0);
    return {text, static_cast<size_t>(got)};
}
std::string field(const char* name) {
    const std::string status = file("/proc/self/status");
    const size_t at = status.find(std::string("\n") + name + ":");
    CHECK(at != std::string::npos);
    return status.substr(at + 1, status.find('\n', at + 1) - at - 1);
}

test::Check identity() {
    const pid_t pid = getpid(), group = getpgrp(), session = getsid(0);
    return [=](bool) {
        // The parent is a new one: the restart's shell is not in the image.
        CHECK(getpid() == pid && getpgrp() == group && getsid(0) == session);
        CHECK(field("Threads") == "Threads:\t1");
    };
}

test::Check directory_and_umask() {
    CHECK(mkdir("inside", 0755) == 0 || errno == EEXIST);
    const std::string before_cwd = link("/proc/self/cwd");
    CHECK(chdir("inside") == 0);
    umask(0137);
    return [=](bool) {
        CHECK(link("/proc/self/cwd") == before_cwd + "/inside");
        const mode_t mask = umask(0137);
        CHECK(mask == 0137);
    };
}

test::Check limits() {
    rlimit limit{};
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 333;
    limit.rlim_max = 444;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 8192;
    limit.rlim_max = RLIM_INFINITY;
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    limit.rlim_cur = 4 << 20;
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    return [all = file("/proc/self/limits")](bool) {
        if (file("/proc/self/limits") != all) {
            test::say(all.c_str());
            test::say(file("/proc/self/limits").c_str());
        }
        CHECK(file("/proc/self/limits") == all);
    };
}

test::Check scheduling() {
    CHECK(setpriority(PRIO_PROCESS, 0, 7) == 0);
    sched_param param{};
    CHECK(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &param) == 0);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    CHECK(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
    return [](bool) {
        errno = 0;
        CHECK(getpriority(PRIO_PROCESS, 0) == 7 && errno == 0);
        CHECK(sched_getscheduler(0) == (SCHED_BATCH | SCHED_RESET_ON_FORK));
        cpu_set_t now;
        CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_COUNT(&now) == 1 && CPU_ISSET(0, &now));
    };
}

test::Check name() {
    CHECK(prctl(PR_SET_NAME, "new (na) me") == 0);
    return [](bool) {
        char now[16];
        CHECK(prctl(PR_GET_NAME, now) == 0 && std::strcmp(now, "new (na) me") == 0);
        CHECK(file("/proc/self/comm") == "new (na) me\n");
    };
}

test::Check settings_of_prctl() {
    CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR2) == 0);
    CHECK(prctl(PR_SET_TIMERSLACK, 123456) == 0);
    CHECK(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    // An ordinary user's process that isn't dumpable can't be saved; it is refused (faults/refused).
    const int dumpable = getuid() == 0 ? 0 : 1;
    CHECK(prctl(PR_SET_DUMPABLE, dumpable) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    return [=](bool) {
        int value = 0;
        CHECK(prctl(PR_GET_PDEATHSIG, &value) == 0 && value == SIGUSR2);
        CHECK(prctl(PR_GET_TIMERSLACK) == 123456);
        CHECK(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) == PR_MCE_KILL_EARLY);
        CHECK(prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value == 1);
        CHECK(prctl(PR_GET_DUMPABLE) == dumpable);
        CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
        CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    };
}

// As daemons do: what ps shows is overwritten in place.
test::Check arguments_and_environment(char** argv) {
    const size_t length = std::strlen(argv[0]);
    std::memset(argv[0], 'z', length);
    CHECK(setenv("SET_LATER", "yes", 1) == 0);
    return [=, environment = file("/proc/self/environ")](bool) {
        CHECK(file("/proc/self/cmdline") == std::string(length, 'z') + '\0');
        CHECK(file("/proc/self/environ") == environment);
        CHECK(std::strcmp(getenv("SET_LATER"), "yes") == 0);
    };
}

test::Check executable_and_vector() {
    const unsigned long page = getauxval(AT_PAGESZ), random = getauxval(AT_RANDOM);
    std::array<unsigned char, 16> random_bytes{};
    std::memcpy(random_bytes.data(), reinterpret_cast<void*>(random), 16);
    return [=, executable = link("/proc/self/exe"), auxv = file("/proc/self/auxv")](bool) {
        CHECK(link("/proc/self/exe") == executable && file("/proc/self/auxv") == auxv);
        CHECK(getauxval(AT_PAGESZ) == page && getauxval(AT_RANDOM) == random);
        CHECK(std::memcmp(random_bytes.data(), reinterpret_cast<void*>(random), 16) == 0);
    };
}

test::Check oom_score() {
    const std::string oom = "321\n";
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY);
    const bool with_oom = fd >= 0 && write(fd, oom.data(), oom.size()) == static_cast<ssize_t>(oom.size());
    close(fd);
    return [=](bool) {
        if (with_oom) CHECK(file("/proc/self/oom_score_adj") == oom);
    };
}

test::Check what_a_core_has() {
    const std::string filter = "00000015\n";
    const int fd = open("/proc/self/coredump_filter", O_WRONLY);
    CHECK(fd >= 0 && write(fd, "0x15", 4) == 4 && close(fd) == 0);
    return [=](bool) { CHECK(file("/proc/self/coredump_filter") == filter); };
}

test::Check end_of_the_heap() {
    return [before = sbrk(0)](bool) { CHECK(sbrk(0) == before); };
}
}  // namespace

int main(int, char** argv) {
    test::serve({{"ids", identity},
                 {"working directory and umask", directory_and_umask},
                 {"limits", limits},
                 {"scheduling", scheduling},
                 {"name", name},
                 {"settings of prctl", settings_of_prctl},
                 {"arguments and environment", [=] { return arguments_and_environment(argv); }},
                 {"executable and auxiliary vector", executable_and_vector},
                 {"OOM score", oom_score},
                 {"what a core dump has", what_a_core_has},
                 {"the end of the heap", end_of_the_heap}});
}
