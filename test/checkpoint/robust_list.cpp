// A robust mutex that a child of fork took through libc before the checkpoint, killed by SIGKILL after the
// restart: nobody but the kernel can tell the next owner.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

int main() {
    struct Shared {
        pthread_mutex_t mutex[2];
        std::atomic<bool> held;
    };
    auto* shared =
        static_cast<Shared*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(shared != MAP_FAILED);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    for (auto& mutex : shared->mutex) CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (auto& mutex : shared->mutex) CHECK(pthread_mutex_lock(&mutex) == 0);
        shared->held = true;
        for (;;) pause();
    }
    while (!shared->held) test::nap(1);
    test::serve([&](bool last) {
        for (auto& mutex : shared->mutex) CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
        for (auto& mutex : shared->mutex)
            CHECK(pthread_mutex_trylock(&mutex) == EOWNERDEAD && pthread_mutex_consistent(&mutex) == 0 &&
                  pthread_mutex_unlock(&mutex) == 0);
    });
}
