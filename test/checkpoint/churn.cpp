// Forks, execs, creates and ends threads as fast as it can; counts what it started and what came back.
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

extern char** environ;

namespace {
std::atomic<bool> stop{false};
std::atomic<long> counts[4];
const char* self;

void reap(const char* what, pid_t pid, int expected) {
    int status = -1;
    const pid_t got = pid > 0 ? waitpid(pid, &status, 0) : 0;
    if (got != pid || !WIFEXITED(status) || WEXITSTATUS(status) != expected)
        std::fprintf(stderr, "%s: child %d, waitpid gave %d status %x, %d was expected\n", what, pid, got,
                     static_cast<unsigned>(status), expected);
    CHECK(got == pid && WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

void* forks(void*) {
    while (!stop) {
        const int code = static_cast<int>(counts[0] % 100);
        const pid_t pid = fork();
        if (pid == 0) {
            const pid_t grandchild = fork();
            if (grandchild == 0) _exit(code / 2);
            reap("grandchild", grandchild, code / 2);
            _exit(code);
        }
        reap("fork", pid, code);
        ++counts[0];
    }
    return nullptr;
}
void* execs(void*) {
    while (!stop) {
        char code[16];
        std::snprintf(code, sizeof code, "%ld", counts[1] % 100);
        const pid_t pid = fork();
        if (pid == 0) {
            execl(self, self, "exit", code, static_cast<char*>(nullptr));
            _exit(127);
        }
        reap("exec", pid, static_cast<int>(counts[1] % 100));
        ++counts[1];
    }
    return nullptr;
}
void* spawns(void*) {
    while (!stop) {
        char code[16];
        std::snprintf(code, sizeof code, "%ld", counts[2] % 100);
        char* const arguments[] = {const_cast<char*>(self), const_cast<char*>("again"), code, nullptr};
        pid_t pid = 0;
        CHECK(posix_spawn(&pid, self, nullptr, nullptr, arguments, environ) == 0);
        reap("spawn", pid, static_cast<int>(counts[2] % 100));
        ++counts[2];
    }
    return nullptr;
}
void* threads(void*) {
    while (!stop) {
        pthread_t made[3];
        for (long i = 0; i < 3; ++i)
            CHECK(pthread_create(
                      &made[i], nullptr, [](void* argument) { return argument; },
                      reinterpret_cast<void*>(i + 10)) == 0);
        for (long i = 0; i < 3; ++i) {
            void* value = nullptr;
            CHECK(pthread_join(made[i], &value) == 0 && reinterpret_cast<long>(value) == i + 10);
        }
        ++counts[3];
    }
    return nullptr;
}
}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], "exit") == 0) return std::atoi(argv[2]);
    if (argc == 3 && std::strcmp(argv[1], "again") == 0) {
        execl("/proc/self/exe", argv[0], "exit", argv[2], static_cast<char*>(nullptr));
        return 126;
    }
    self = argv[0];
    pthread_t made[4];
    void* (*const lives[])(void*) = {forks, execs, spawns, threads};
    for (int i = 0; i < 4; ++i) CHECK(pthread_create(&made[i], nullptr, lives[i], nullptr) == 0);
    test::serve([&](bool last) {
        long before[4];
        for (int i = 0; i < 4; ++i) before[i] = counts[i];
        bool moved = false;
        for (int tries = 0; tries < 1000 && !moved; ++tries) {
            test::nap(10);
            moved = true;
            for (int i = 0; i < 4; ++i) moved = moved && counts[i] > before[i];
        }
        CHECK(moved);
        if (!last) return;
        stop = true;
        for (auto& thread : made) CHECK(pthread_join(thread, nullptr) == 0);
        int status = 0;
        CHECK(waitpid(-1, &status, 0) == -1 && errno == ECHILD);  // nobody lost, nobody new
    });
}
