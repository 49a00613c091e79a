// As many processes as it is told: each answers when it is asked.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <vector>

#include "support.h"

namespace {
// What was asked last, and what each process has answered.
struct Shared {
    volatile int question;
    volatile int answers[4096];
};
Shared* shared;
int own = -1;

void answer(int /*signal*/) {
    shared->answers[own] = shared->question;
}
}  // namespace

int main(int argc, char** argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 100;
    CHECK(count <= 4096);
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    shared = static_cast<Shared*>(memory);
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &before);
    signal(SIGUSR1, answer);
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            own = i;
            // No copy-on-write child either, but for a superuser.
            const rlimit none{0, 0};
            CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
            for (;;) sigsuspend(&before);
        }
        children.push_back(child);
    }
    int question = 0;
    test::serve([&](bool last) {
        shared->question = ++question;
        for (const pid_t child : children) CHECK(kill(child, SIGUSR1) == 0);
        int missing = count;
        for (int tries = 0; tries < 3000 && missing > 0; ++tries) {
            test::nap(10);
            missing = 0;
            for (int i = 0; i < count; ++i) missing += shared->answers[i] != question ? 1 : 0;
        }
        CHECK(missing == 0);
        if (!last) return;
        for (const pid_t child : children) CHECK(kill(child, SIGKILL) == 0);
        for (const pid_t child : children) CHECK(waitpid(child, nullptr, 0) == child);
    });
}
