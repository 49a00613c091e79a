// Processes that end, main threads that end before their siblings, and orphans, at every moment: whatever a
// checkpoint finds of them, each child is waited for once, with its own status.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <map>

#include "support.h"

namespace {
constexpr int crowd = 40;
unsigned chance = 1;

int dice(int sides) {
    chance = chance * 1103515245 + 12345;
    return static_cast<int>(chance >> 16) % sides;
}

// Lives a little longer than its main thread; the process ends with status 0 then.
void* straggler(void*) {
    test::nap(3);
    return nullptr;
}

[[noreturn]] void child(int status, int kind) {
    if (kind == 0) {  // the main thread goes first
        pthread_t made;
        CHECK(pthread_create(&made, nullptr, straggler, nullptr) == 0);
        pthread_exit(nullptr);
    }
    if (kind == 1 && fork() == 0) {  // leaves an orphan, which the subreaper waits for
        test::nap(status % 7);
        _exit(99);
    }
    test::nap(status % 5);
    _exit(status);
}
}  // namespace

int main() {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    std::map<pid_t, int> expected;
    long orphans = 0, adopted = 0, reaped = 0;
    const auto reap = [&](int options) {
        siginfo_t info = {};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | options) != 0) {
            CHECK(errno == ECHILD && expected.empty());
            return false;
        }
        const pid_t pid = info.si_pid;
        if (pid == 0) return false;
        char name[64] = "", path[64];
        std::snprintf(path, sizeof path, "/proc/%d/comm", pid);
        const int file = open(path, O_RDONLY);
        if (file < 0 || read(file, name, sizeof name - 1) < 0) std::strcpy(name, "?");
        close(file);
        name[std::strcspn(name, "\n")] = 0;
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid);
        const int wanted = expected.contains(pid) ? expected[pid] : 99;
        if (status != wanted << 8)
            std::fprintf(stderr, "child %d (%s) ended with status %x, expected %x\n", pid, name,
                         static_cast<unsigned>(status), static_cast<unsigned>(wanted << 8));
        CHECK(WIFEXITED(status));
        const auto found = expected.find(pid);
        if (found == expected.end()) {
            CHECK(WEXITSTATUS(status) == 99);
            ++adopted;
        } else {
            CHECK(WEXITSTATUS(status) == found->second);
            expected.erase(found);
        }
        ++reaped;
        return true;
    };
    const auto turn = [&] {
        while (expected.size() < crowd) {
            const int kind = dice(3);
            const int status = kind == 0 ? 0 : 1 + dice(90);
            if (kind == 1) ++orphans;
            const pid_t pid = fork();
            if (pid == 0) child(status, kind);
            CHECK(pid > 0);
            expected[pid] = status;
        }
        test::nap(dice(4));  // meanwhile they turn into zombies
        while (reap(WNOHANG)) {
        }
    };
    test::Orders orders;
    test::say("READY");
    for (;;) {
        const int answer = orders.poll();
        if (answer == 0) {
            turn();
            continue;
        }
        const long before = reaped;
        while (reaped < before + 2 * crowd) turn();
        if (answer < 0) break;
        orders.answer();
    }
    while (!expected.empty()) CHECK(reap(0));
    while (reap(0)) {
    }
    if (adopted != orphans) std::fprintf(stderr, "%ld orphans, %ld adopted\n", orphans, adopted);
    CHECK(adopted == orphans);
    test::say("EXIT-SUCCESS");
    return 0;
}
