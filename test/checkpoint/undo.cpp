// Two processes take a System V semaphore and give it back all the time, with promises (SEM_UNDO): wherever a
// checkpoint finds them, the promise must be known to the last one.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "support.h"

namespace {

// One semaphore, and what its holder counts: both are the same whenever nobody holds it.
struct Shared {
    volatile long counters[2];
};

bool operate(int semaphore, short amount) {
    sembuf operation{0, amount, SEM_UNDO};
    return semop(semaphore, &operation, 1) == 0;
}

pid_t start(int semaphore, Shared* shared) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) return child;
    for (;;) {
        CHECK(operate(semaphore, -1));
        CHECK(shared->counters[0] == shared->counters[1]);
        shared->counters[0] = shared->counters[0] + 1;
        shared->counters[1] = shared->counters[1] + 1;
        CHECK(operate(semaphore, 1));
    }
}

}  // namespace

int main() {
    const int semaphore = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    CHECK(semaphore >= 0 && semctl(semaphore, 0, SETVAL, 1) == 0);
    auto* shared = static_cast<Shared*>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(shared != MAP_FAILED);
    std::array children{start(semaphore, shared), start(semaphore, shared)};
    test::serve([&](bool last) {
        const long counted = shared->counters[0];
        while (shared->counters[0] == counted) test::nap(1);
        for (const pid_t child : children) {
            CHECK(kill(child, SIGKILL) == 0);
            CHECK(waitpid(child, nullptr, 0) == child);
        }
        const int left = semctl(semaphore, 0, GETVAL);
        if (left != 1)
            test::say(("FAILED the semaphore is " + std::to_string(left) + " after both have ended, not 1")
                          .c_str());
        CHECK(left == 1);
        shared->counters[1] = shared->counters[0];
        if (last)
            CHECK(semctl(semaphore, 0, IPC_RMID) == 0);
        else
            children = {start(semaphore, shared), start(semaphore, shared)};
    });
}
