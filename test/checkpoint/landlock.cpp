// A program that has forbidden itself to write to files (Landlock), in each of the ways in which one gets to
// be restricted; at each order it says whether it still is. Landlock has no functions in libc: "call" is by
// syscall(2), "raw" past the library. Built as a static program, too, into which nothing is preloaded.
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "support.h"

namespace {

// Not by libc: whoever looks at its function syscall sees nothing.
long past_the_library(long number, long a, long b, long c) {
    long answer = number;
    asm volatile("syscall" : "+a"(answer) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return answer;
}

void restrict_self(bool raw, bool promise = true) {
    landlock_ruleset_attr rules{};
    rules.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE;
    const long set = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules.handled_access_fs, 0L);
    if (set < 0) test::skip("this kernel has no Landlock");
    CHECK(!promise || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK((raw ? past_the_library(SYS_landlock_restrict_self, set, 0, 0)
               : syscall(SYS_landlock_restrict_self, set, 0L)) == 0);
    CHECK(close(static_cast<int>(set)) == 0);
}

bool may_write() {
    const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) close(fd);
    CHECK(fd >= 0 || errno == EACCES);
    return fd >= 0;
}

void serve(const std::function<bool()>& asked) {
    test::serve([&](bool) { test::say(asked() ? "FREE" : "RESTRICTED"); });
}

// Only one of its threads is restricted, and says so.
void serve_for_thread(bool raw) {
    std::atomic<int> question{0}, answered{-1};
    std::atomic<bool> free{true};
    std::thread([&] {
        restrict_self(raw);
        for (;; test::nap(1)) {
            const int now = question;
            if (answered == now) continue;
            free = may_write();
            answered = now;
        }
    }).detach();
    while (answered != 0) test::nap(1);
    serve([&] {
        CHECK(may_write());
        const int now = ++question;
        while (answered != now) test::nap(1);
        return free.load();
    });
}

// The child is what the parent was when it was born.
void serve_for_child() {
    int questions[2], answers[2];
    CHECK(pipe2(questions, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0);
    restrict_self(false);
    if (fork() == 0) {
        close(questions[1]);
        for (char byte = 0; read(questions[0], &byte, 1) == 1;) {
            byte = may_write() ? 1 : 0;
            CHECK(write(answers[1], &byte, 1) == 1);
        }
        _exit(0);
    }
    serve([&] {
        char byte = 0;
        CHECK(write(questions[1], &byte, 1) == 1 && read(answers[0], &byte, 1) == 1);
        CHECK((byte != 0) == may_write());
        return byte != 0;
    });
}

}  // namespace

int main(int argc, char** argv) {
    CHECK(argc == 2);
    const std::string kind = argv[1];
    if (kind == "call" || kind == "raw") restrict_self(kind == "raw");
    if (kind == "twice") {
        restrict_self(false);
        restrict_self(true);
    }
    if (kind == "exec" || kind == "capable exec" || kind == "capable child execs") {
        restrict_self(false, kind == "exec");
        if (kind == "capable child execs")
            if (const pid_t child = fork(); child != 0) {
                int status = 0;
                while (waitpid(child, &status, 0) != child) {
                }
                return WEXITSTATUS(status);
            }
        char executed[] = "executed";
        char* const words[] = {argv[0], executed, nullptr};
        CHECK(execv(argv[0], words) == 0);
    }
    if (kind == "thread" || kind == "raw thread") serve_for_thread(kind == "raw thread");
    if (kind == "child") serve_for_child();
    serve(may_write);
}
