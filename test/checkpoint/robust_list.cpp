// A robust mutex that a child of fork took through libc before the checkpoint, killed by SIGKILL after the
// restart: nobody but the kernel can tell the next owner. And a thread whose list leads to what is no mutex.
// rain: soak
// heirs: none
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

namespace {

// The kernel is given a copy of the list's head. It leads to the head that libc made, which has pointers of
// libc's where a mutex would say who holds it.
void* with_copied_head(void* done) {
    robust_list_head* head = nullptr;
    std::size_t size = 0;
    CHECK(syscall(SYS_get_robust_list, 0, &head, &size) == 0);
    robust_list_head copy = *head;
    CHECK(copy.list.next == &head->list);
    CHECK(syscall(SYS_set_robust_list, &copy, size) == 0);
    while (!static_cast<std::atomic<bool>*>(done)->load()) test::nap(1);
    CHECK(syscall(SYS_set_robust_list, head, size) == 0);
    return nullptr;
}

}  // namespace

int main() {
    std::atomic<bool> done = false;
    pthread_t thread = {};
    CHECK(pthread_create(&thread, nullptr, with_copied_head, &done) == 0);
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
        done = true;
        CHECK(pthread_join(thread, nullptr) == 0);  // takes it off libc's list
        CHECK(kill(child, SIGKILL) == 0);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
        for (auto& mutex : shared->mutex)
            CHECK(pthread_mutex_trylock(&mutex) == EOWNERDEAD && pthread_mutex_consistent(&mutex) == 0 &&
                  pthread_mutex_unlock(&mutex) == 0);
    });
}
