// POSIX shared memory (shm_open) and named semaphores (sem_open): files of /dev/shm, which nothing but memory
// keeps. Mapped by several processes, read-only, without a name any more; a process and a thread asleep in
// sem_wait.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
// still: user
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <string>
#include <thread>

#include "support.h"

namespace {

struct Shared {
    std::atomic<long> turns, answers;
    char text[100];
};

Shared* map(int fd, int protection) {
    void* at = mmap(nullptr, sizeof(Shared), protection, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    return static_cast<Shared*>(at);
}
int value(sem_t* semaphore) {
    int is = -1;
    CHECK(sem_getvalue(semaphore, &is) == 0);
    return is;
}

}  // namespace

int main() {
    const std::string stem = "/cairn-test-" + std::to_string(getpid()) + "-", named = stem + "named",
                      nameless = stem + "gone", counting = stem + "count", asks = stem + "ask",
                      answers = stem + "answer", lost = stem + "lost";
    const int fd = shm_open(named.c_str(), O_RDWR | O_CREAT | O_EXCL, 0640),
              gone = shm_open(nameless.c_str(), O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && gone >= 0 && ftruncate(fd, 3 * 4096 + 17) == 0 && ftruncate(gone, 8192) == 0);
    Shared* shared = map(fd, PROT_READ | PROT_WRITE);
    Shared* hidden = map(gone, PROT_READ | PROT_WRITE);
    const int reader = shm_open(named.c_str(), O_RDONLY, 0);
    const Shared* seen = map(reader, PROT_READ);
    CHECK(reader >= 0 && close(reader) == 0 && shm_unlink(nameless.c_str()) == 0 && close(gone) == 0);
    std::strcpy(shared->text, "kept by memory only");
    std::strcpy(hidden->text, "and without a name");

    sem_t* count = sem_open(counting.c_str(), O_CREAT | O_EXCL, 0600, 3);
    sem_t* ask = sem_open(asks.c_str(), O_CREAT | O_EXCL, 0600, 0);
    sem_t* answer = sem_open(answers.c_str(), O_CREAT | O_EXCL, 0600, 0);
    sem_t* unlinked = sem_open(lost.c_str(), O_CREAT | O_EXCL, 0600, 0);
    CHECK(count != SEM_FAILED && ask != SEM_FAILED && answer != SEM_FAILED && unlinked != SEM_FAILED);
    CHECK(sem_unlink(lost.c_str()) == 0);
    const pid_t child = fork();
    if (child == 0)
        for (;;) {
            CHECK(sem_wait(ask) == 0);
            shared->answers = shared->turns * 10;
            hidden->answers = hidden->turns * 100;
            CHECK(sem_post(answer) == 0);
        }
    CHECK(child > 0);
    static std::atomic<int> woken{0};
    std::thread([=] {
        for (;;) {
            CHECK(sem_wait(unlinked) == 0);
            ++woken;
        }
    }).detach();

    long turn = 0;
    test::serve([&](bool last) {
        CHECK(std::strcmp(seen->text, "kept by memory only") == 0 &&
              std::strcmp(hidden->text, "and without a name") == 0);
        CHECK(shared->turns == turn && hidden->turns == turn && value(count) == 3 && value(ask) == 0);
        ++turn;
        shared->turns = hidden->turns = turn;
        CHECK(seen->turns == turn && sem_post(ask) == 0 && sem_wait(answer) == 0);
        CHECK(shared->answers == turn * 10 && hidden->answers == turn * 100);
        struct stat status {};
        CHECK(fstat(fd, &status) == 0 && status.st_size == 3 * 4096 + 17 && (status.st_mode & 0777) == 0640);
        // Others find it by its name, and it is the same.
        const int again = shm_open(named.c_str(), O_RDONLY, 0);
        CHECK(again >= 0 && shm_open(nameless.c_str(), O_RDWR, 0) == -1 && errno == ENOENT);
        const Shared* other = map(again, PROT_READ);
        CHECK(other->turns == turn && munmap(const_cast<Shared*>(other), sizeof(Shared)) == 0 &&
              close(again) == 0);
        sem_t* same = sem_open(counting.c_str(), 0);
        CHECK(same == count && sem_trywait(same) == 0 && value(count) == 2 && sem_post(count) == 0 &&
              sem_close(same) == 0);
        // As another program would: sem_open(3) here finds what this program has mapped already, by the
        // inode's number.
        const int file = open(("/dev/shm/sem." + counting.substr(1)).c_str(), O_RDWR | O_CLOEXEC);
        void* through = mmap(nullptr, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(file >= 0 && close(file) == 0 && through != MAP_FAILED);
        CHECK(sem_trywait(static_cast<sem_t*>(through)) == 0 && value(count) == 2 && sem_post(count) == 0 &&
              value(static_cast<sem_t*>(through)) == 3 && munmap(through, sizeof(sem_t)) == 0);
        const int before = woken;
        CHECK(sem_post(unlinked) == 0);
        for (int i = 0; i < 2000 && woken == before; ++i) test::nap(5);
        CHECK(woken == before + 1);
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
        for (const std::string& name : {counting, asks, answers}) CHECK(sem_unlink(name.c_str()) == 0);
        CHECK(shm_unlink(named.c_str()) == 0);
    });
}
