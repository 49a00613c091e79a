// A vfork child that takes its time before it execs, and posix_spawn and system in a loop, while checkpoints
// are taken.
// rain: soak
// heirs: none
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

extern char** environ;

namespace {
std::atomic<bool> stop{false};
std::atomic<int> rounds{0};

void* births(void*) {
    while (!stop) {
        int status = -1;
        const pid_t pid = vfork();
        if (pid == 0) {
            timespec time{0, 100000000};
            nanosleep(&time, nullptr);
            execl("/bin/sh", "sh", "-c", "exit 3", static_cast<char*>(nullptr));
            _exit(127);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
        char* const arguments[] = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                                   const_cast<char*>("sleep 0.05; exit 4"), nullptr};
        pid_t spawned = 0;
        CHECK(posix_spawn(&spawned, "/bin/sh", nullptr, nullptr, arguments, environ) == 0);
        CHECK(waitpid(spawned, &status, 0) == spawned && WEXITSTATUS(status) == 4);
        CHECK(WEXITSTATUS(std::system("exit 5")) == 5);
        FILE* stream = popen("echo from popen", "r");
        char line[64] = "";
        CHECK(stream != nullptr && std::fgets(line, sizeof line, stream) != nullptr);
        CHECK(std::strcmp(line, "from popen\n") == 0 && pclose(stream) == 0);
        ++rounds;
    }
    return nullptr;
}
}  // namespace

int main() {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, births, nullptr) == 0);
    test::serve([&](bool last) {
        const int before = rounds;
        for (int i = 0; i < 2000 && rounds < before + 2; ++i) test::nap(5);
        CHECK(rounds >= before + 2);
        if (!last) return;
        stop = true;
        CHECK(pthread_join(thread, nullptr) == 0);
    });
}
