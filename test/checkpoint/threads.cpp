// Threads: stacks, TLS, names, masks, join with a value, a mutex held over the checkpoint, 80 of them at
// once.
// rain: soak
// still: exact
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

namespace {
constexpr int count = 80;
thread_local long mine = -1;
thread_local char big[5000] = "initial";
std::atomic<long> ticks[count];
std::atomic<bool> stop{false};
std::atomic<int> up{0};
pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t recursive;
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
pthread_mutex_t condition_lock = PTHREAD_MUTEX_INITIALIZER;
int generation = 0;

void* work(void* argument) {
    const long index = reinterpret_cast<long>(argument);
    mine = index;
    std::snprintf(big, sizeof big, "thread %ld", index);
    char name[16];
    std::snprintf(name, sizeof name, "t%ld", index);
    CHECK(prctl(PR_SET_NAME, name) == 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + static_cast<int>(index % 20));
    CHECK(pthread_sigmask(SIG_SETMASK, &set, nullptr) == 0);
    const pid_t tid = gettid();
    volatile long on_stack[64];
    for (long i = 0; i < 64; ++i) on_stack[i] = index * i;
    ++up;
    if (index % 4 == 1) {
        pthread_mutex_lock(&held);  // waits until main lets go, at the end
        pthread_mutex_unlock(&held);
    }
    // A wakeup for a generation that comes while this thread isn't in its wait yet isn't lost: it is then not
    // the one that it has seen.
    int seen_generation = 0;
    while (!stop) {
        ++ticks[index];
        if (index % 4 == 2) {
            pthread_mutex_lock(&condition_lock);
            while (generation == seen_generation && !stop) pthread_cond_wait(&condition, &condition_lock);
            seen_generation = generation;
            pthread_mutex_unlock(&condition_lock);
        } else {
            test::nap(10 + index % 7);
        }
        char seen[16];
        CHECK(prctl(PR_GET_NAME, seen) == 0 && std::strcmp(seen, name) == 0);
        sigset_t now;
        CHECK(pthread_sigmask(SIG_SETMASK, nullptr, &now) == 0);
        for (int signal = 1; signal < 65; ++signal)
            if (signal < 32 || signal > 33) CHECK(sigismember(&now, signal) == sigismember(&set, signal));
        CHECK(mine == index && std::strncmp(big, "thread ", 7) == 0 && std::atol(big + 7) == index);
        CHECK(gettid() == tid);
        for (long i = 0; i < 64; ++i) CHECK(on_stack[i] == index * i);
    }
    return reinterpret_cast<void*>(index * 3);
}
}  // namespace

int main() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutex_lock(&held);
    pthread_mutex_lock(&recursive);
    pthread_t threads[count];
    for (long i = 0; i < count; ++i)
        CHECK(pthread_create(&threads[i], nullptr, work, reinterpret_cast<void*>(i)) == 0);
    while (up < count) test::nap(1);
    test::serve([&](bool last) {
        CHECK(pthread_mutex_lock(&recursive) == 0);  // the owner is a thread id: it must still be ours
        CHECK(pthread_mutex_unlock(&recursive) == 0);
        long before[count];
        for (int i = 0; i < count; ++i) before[i] = ticks[i];
        pthread_mutex_lock(&condition_lock);
        ++generation;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&condition_lock);
        for (int i = 0; i < count; ++i) {
            if (i % 4 == 1) continue;
            for (int tries = 0; tries < 2000 && ticks[i] == before[i]; ++tries) test::nap(5);
            CHECK(ticks[i] > before[i]);
        }
        // A thread made after the restart works, and is joined like any other.
        pthread_t another;
        CHECK(pthread_create(
                  &another, nullptr, [](void*) { return reinterpret_cast<void*>(mine); }, nullptr) == 0);
        void* value = nullptr;
        CHECK(pthread_join(another, &value) == 0 && reinterpret_cast<long>(value) == -1);
        if (!last) return;
        pthread_mutex_unlock(&held);
        stop = true;
        pthread_mutex_lock(&condition_lock);
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&condition_lock);
        for (long i = 0; i < count; ++i) {
            CHECK(pthread_join(threads[i], &value) == 0);
            CHECK(reinterpret_cast<long>(value) == i * 3);
        }
    });
}
