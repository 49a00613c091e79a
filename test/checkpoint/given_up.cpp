// Processes that have given something up, or have nothing to spare: another user, another root, not dumpable,
// every descriptor in use.
// rain: soak
// heirs: none
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>

#include "support.h"

namespace {
struct Shared {
    std::atomic<long> turns[4];
};
Shared* shared;
constexpr rlim_t few = 64;

void full_table(bool begin) {
    if (begin) {
        const rlimit limit = {few, few};
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        while (dup(1) >= 0) {
        }
        CHECK(errno == EMFILE);
    }
    for (int fd = 0; fd < static_cast<int>(few); ++fd) CHECK(fcntl(fd, F_GETFD) >= 0);
    rlimit limit = {};
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == few && limit.rlim_max == few);
    CHECK(dup(1) == -1 && errno == EMFILE);
}

void undumpable(bool begin) {
    if (begin) CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
}

void another_user(bool begin) {
    if (begin) CHECK(setgid(1234) == 0 && setuid(1234) == 0);
    CHECK(getuid() == 1234 && geteuid() == 1234 && getgid() == 1234);
    CHECK(setuid(0) == -1 && errno == EPERM);
    CHECK(prctl(PR_GET_DUMPABLE) != 1);  // a change of user takes it away
}

void another_root(bool begin) {
    if (begin)
        CHECK(mkdir("root", 0755) == 0 && mkdir("root/inside", 0755) == 0 && chroot("root") == 0 &&
              chdir("/") == 0);
    struct stat status = {};
    CHECK(stat("/inside", &status) == 0 && stat("/proc", &status) == -1 && errno == ENOENT);
}

bool has_other_users() {
    FILE* file = std::fopen("/proc/self/uid_map", "re");
    unsigned long inside = 0, outside = 0, length = 0;
    CHECK(file != nullptr && std::fscanf(file, "%lu %lu %lu", &inside, &outside, &length) == 3);
    std::fclose(file);
    return length > 1234;
}

void (*const kinds[])(bool) = {full_table, undumpable, another_root, another_user};
}  // namespace

int main() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    shared = static_cast<Shared*>(memory);
    // An ordinary user can't be traced when he isn't dumpable; in a user namespace there may be no other
    // user.
    const int count = geteuid() != 0 ? 1 : has_other_users() ? 4 : 3;
    pid_t children[4] = {};
    for (int i = 0; i < count; ++i) {
        children[i] = fork();
        if (children[i] != 0) continue;
        kinds[i](true);
        for (;; test::nap(5)) {
            kinds[i](false);
            ++shared->turns[i];
        }
    }
    for (int i = 0; i < count; ++i)
        while (shared->turns[i] == 0) test::nap(1);
    test::serve([&](bool last) {
        for (int i = 0; i < count; ++i) {
            const long before = shared->turns[i];
            for (int tries = 0; tries < 1000 && shared->turns[i] <= before + 1; ++tries) test::nap(5);
            CHECK(shared->turns[i] > before + 1);
            CHECK(waitpid(children[i], nullptr, WNOHANG) == 0);
        }
        if (last)
            for (int i = 0; i < count; ++i) kill(children[i], SIGKILL);
    });
}
