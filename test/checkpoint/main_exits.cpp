// The main thread has exited, others live: /proc/self is empty, the process is not; and some of its memory is
// marked, which its files of /proc don't show.
// rain: soak
// narrow: none
#include <pthread.h>
#include <sys/mman.h>

#include <initializer_list>

#include "support.h"

namespace {
thread_local int number = 5;
void* live(void*) {
    number = 17;
    test::nap(50);  // main is gone by then
    const pid_t pid = getpid(), tid = gettid();
    CHECK(pid != tid);
    auto* const wiped =
        static_cast<int*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(wiped != MAP_FAILED && madvise(wiped, 4096, MADV_WIPEONFORK) == 0);
    *wiped = 23;
    test::serve([&](bool) {
        CHECK(*wiped == 23);
        CHECK(getpid() == pid && gettid() == tid && number == 17);
        pthread_t another;
        CHECK(pthread_create(
                  &another, nullptr, [](void*) -> void* { return &number; }, nullptr) == 0);
        void* value = nullptr;
        CHECK(pthread_join(another, &value) == 0 && value != &number);
    });
    return nullptr;
}
}  // namespace

int main() {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, live, nullptr) == 0);
    pthread_exit(nullptr);
}
