// A thread that is not the main one execs, again and again: the thread's id goes, and it becomes the main
// thread.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>

#include "support.h"

namespace {
char** arguments;
std::atomic<long>* count;

// Keeps running, and is killed by its sibling's exec.
void* bystander(void*) {
    for (;;) asm volatile("pause");
}

void* execer(void*) {
    char number[32];
    std::snprintf(number, sizeof number, "%ld", std::atol(arguments[2]) + 1);
    char* const next[] = {arguments[0], arguments[1], number, nullptr};
    execv("/proc/self/exe", next);
    test::failed(__FILE__, __LINE__, "execv");
}

// The child: one exec after the other, each by a thread. Tells by a file how far it has come.
[[noreturn]] void run() {
    const int file = open(arguments[1], O_RDWR | O_CLOEXEC);
    CHECK(file >= 0);
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    close(file);
    static_cast<std::atomic<long>*>(memory)->store(std::atol(arguments[2]));
    pthread_t made;
    CHECK(pthread_create(&made, nullptr, bystander, nullptr) == 0);
    CHECK(pthread_create(&made, nullptr, execer, nullptr) == 0);
    for (;;) pause();
}
}  // namespace

int main(int argc, char** argv) {
    arguments = argv;
    if (argc == 3) run();
    char path[] = "thread_exec.XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    close(file);
    count = static_cast<std::atomic<long>*>(memory);
    const pid_t child = fork();
    if (child == 0) {
        char zero[] = "0";
        char* const first[] = {argv[0], path, zero, nullptr};
        execv("/proc/self/exe", first);
        _exit(127);
    }
    test::serve([&](bool last) {
        const long before = *count;
        for (int tries = 0; tries < 1000 && *count < before + 3; ++tries) test::nap(10);
        CHECK(*count >= before + 3);
        CHECK(waitpid(child, nullptr, WNOHANG) == 0);
        if (!last) return;
        kill(child, SIGKILL);
        CHECK(waitpid(child, nullptr, 0) == child);
        unlink(path);
    });
}
