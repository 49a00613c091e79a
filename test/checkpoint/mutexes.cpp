// Mutexes of every kind held over the checkpoint, by this thread and by others; robust ones whose owner dies
// after it; read-write locks, barriers, semaphores, a once.
// rain: soak
// heirs: none
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

namespace {
pthread_mutex_t made(int type, bool robust, bool shared, pthread_mutex_t* at) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_settype(&attributes, type) == 0);
    if (robust) CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    if (shared) CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(at, &attributes) == 0);
    return *at;
}

struct Shared {
    pthread_mutex_t mutex, dying;
    sem_t semaphore;
    std::atomic<bool> held, die;
};
Shared* shared;
pthread_mutex_t recursive, checking, robust, normal = PTHREAD_MUTEX_INITIALIZER, of_thread;
pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_barrier_t barrier;
std::atomic<bool> thread_holds{false}, let_go{false}, got{false};

void* holder(void*) {
    CHECK(pthread_mutex_lock(&of_thread) == 0);
    thread_holds = true;
    while (!let_go) test::nap(2);
    CHECK(pthread_mutex_lock(&of_thread) == EDEADLK);
    CHECK(pthread_mutex_unlock(&of_thread) == 0);
    pthread_barrier_wait(&barrier);
    // Ends while it holds the robust one: the next one must be told.
    CHECK(pthread_mutex_lock(&robust) == 0);
    return nullptr;
}
void* waiter(void*) {
    CHECK(pthread_mutex_lock(&normal) == 0);
    got = true;
    CHECK(pthread_mutex_unlock(&normal) == 0);
    return nullptr;
}
}  // namespace

int main() {
    shared =
        static_cast<Shared*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CHECK(shared != MAP_FAILED);
    made(PTHREAD_MUTEX_NORMAL, true, true, &shared->dying);
    made(PTHREAD_MUTEX_ERRORCHECK, false, true, &shared->mutex);
    CHECK(sem_init(&shared->semaphore, 1, 0) == 0);
    made(PTHREAD_MUTEX_RECURSIVE, false, false, &recursive);
    made(PTHREAD_MUTEX_ERRORCHECK, false, false, &checking);
    made(PTHREAD_MUTEX_NORMAL, true, false, &robust);
    made(PTHREAD_MUTEX_ERRORCHECK, false, false, &of_thread);
    CHECK(pthread_barrier_init(&barrier, nullptr, 2) == 0);
    for (int i = 0; i < 3; ++i) CHECK(pthread_mutex_lock(&recursive) == 0);
    CHECK(pthread_mutex_lock(&checking) == 0 && pthread_mutex_lock(&normal) == 0 &&
          pthread_mutex_lock(&shared->mutex) == 0);
    CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
    pthread_t holding, waiting;
    CHECK(pthread_create(&holding, nullptr, holder, nullptr) == 0);
    CHECK(pthread_create(&waiting, nullptr, waiter, nullptr) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(pthread_mutex_lock(&shared->dying) == 0);
        shared->held = true;
        while (!shared->die) test::nap(2);
        CHECK(sem_wait(&shared->semaphore) == 0);
        _exit(9);  // without unlocking
    }
    while (!thread_holds || !shared->held) test::nap(1);
    test::serve([&](bool last) {
        CHECK(pthread_mutex_trylock(&normal) == EBUSY && !got);
        CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        CHECK(pthread_mutex_lock(&checking) == EDEADLK && pthread_mutex_lock(&shared->mutex) == EDEADLK);
        CHECK(pthread_mutex_trylock(&of_thread) == EBUSY && pthread_mutex_unlock(&of_thread) == EPERM);
        CHECK(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
        CHECK(pthread_mutex_trylock(&shared->dying) == EBUSY);
        // Locked and unlocked by a thread that the kernel knows by another id than the program, perhaps.
        CHECK(pthread_mutex_lock(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
        timespec soon{};
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_sec += soon.tv_nsec > 900000000;
        soon.tv_nsec = (soon.tv_nsec + 100000000) % 1000000000;
        const double began = test::now();
        CHECK(pthread_mutex_timedlock(&normal, &soon) == ETIMEDOUT && test::now() - began > 0.09);
        if (!last) return;
        for (int i = 0; i < 3; ++i) CHECK(pthread_mutex_unlock(&recursive) == 0);
        CHECK(pthread_mutex_unlock(&recursive) == EPERM);
        CHECK(pthread_mutex_unlock(&checking) == 0 && pthread_mutex_unlock(&shared->mutex) == 0);
        CHECK(pthread_rwlock_unlock(&rwlock) == 0 && pthread_rwlock_trywrlock(&rwlock) == 0);
        CHECK(pthread_mutex_unlock(&normal) == 0 && pthread_join(waiting, nullptr) == 0 && got);
        let_go = true;
        pthread_barrier_wait(&barrier);
        CHECK(pthread_join(holding, nullptr) == 0);
        CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD && pthread_mutex_consistent(&robust) == 0);
        CHECK(pthread_mutex_unlock(&robust) == 0);
        shared->die = true;
        CHECK(sem_post(&shared->semaphore) == 0);
        // The kernel marks it from the dead child's robust list, which must hold the id that the word shows.
        CHECK(pthread_mutex_lock(&shared->dying) == EOWNERDEAD);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
    });
}
