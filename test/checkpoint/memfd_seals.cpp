// memfd_create(2) with its seals: all of them, none, what had been mapped before it was sealed; read-only and
// in a child.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <initializer_list>
#include <string>

#include "support.h"

namespace {

constexpr std::size_t size = 3 * 4096;

int memory(const char* name, unsigned flags) {
    const int fd = memfd_create(name, flags);
    CHECK(fd >= 0 && ftruncate(fd, size) == 0 && pwrite(fd, name, std::strlen(name), 5000) > 0);
    return fd;
}
bool holds(int fd, const char* name) {
    char text[32] = "";
    return pread(fd, text, std::strlen(name), 5000) == static_cast<ssize_t>(std::strlen(name)) &&
           std::strcmp(text, name) == 0;
}

}  // namespace

int main() {
    constexpr int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    const int sealed = memory("sealed", MFD_ALLOW_SEALING | MFD_CLOEXEC),
              open_one = memory("open", MFD_ALLOW_SEALING), never = memory("never", 0),
              later = memory("later", MFD_ALLOW_SEALING), sized = memory("sized", MFD_ALLOW_SEALING);
    CHECK(fcntl(sealed, F_ADD_SEALS, all) == 0);
    auto* mapped = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, later, 0));
    CHECK(mapped != MAP_FAILED);
    if (fcntl(later, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0)
        test::skip("no F_SEAL_FUTURE_WRITE before Linux 5.1");
    CHECK(fcntl(sized, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    // As firefox has them: only descriptors for reading are left, with a mapping for writing or without.
    int readers[2];
    for (const bool written : {false, true}) {
        const int made = memory("readers", MFD_ALLOW_SEALING);
        if (written) CHECK(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0) != MAP_FAILED);
        CHECK(fcntl(made, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK) == 0);
        readers[written] = open(("/proc/self/fd/" + std::to_string(made)).c_str(), O_RDONLY);
        CHECK(readers[written] >= 0 && close(made) == 0);
    }
    const char* view = static_cast<char*>(mmap(nullptr, size, PROT_READ, MAP_PRIVATE, sealed, 0));
    CHECK(view != MAP_FAILED);
    // Asks on behalf of another process, which has the same files.
    int orders[2], answers[2];
    CHECK(pipe(orders) == 0 && pipe(answers) == 0);
    const pid_t child = fork();
    if (child == 0)
        for (char order;;) {
            CHECK(read(orders[0], &order, 1) == 1 && fcntl(sealed, F_GET_SEALS) == all &&
                  holds(later, "later"));
            CHECK(pwrite(sealed, "x", 1, 0) == -1 && errno == EPERM && mapped[0] == order);
            CHECK(write(answers[1], "y", 1) == 1);
        }
    char mark = 'a';
    test::serve([&](bool last) {
        CHECK(fcntl(sealed, F_GET_SEALS) == all && fcntl(open_one, F_GET_SEALS) == 0);
        CHECK(fcntl(never, F_GET_SEALS) == F_SEAL_SEAL && fcntl(later, F_GET_SEALS) == F_SEAL_FUTURE_WRITE);
        CHECK(fcntl(sized, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
        for (const int reader : readers)
            CHECK(fcntl(reader, F_GET_SEALS) == (F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK) &&
                  (fcntl(reader, F_GETFL) & O_ACCMODE) == O_RDONLY && holds(reader, "readers"));
        CHECK(holds(sealed, "sealed") && holds(open_one, "open") && holds(never, "never") &&
              holds(sized, "sized"));
        CHECK(std::strncmp(view + 5000, "sealed", 6) == 0 && fcntl(sealed, F_GETFD) == FD_CLOEXEC);
        CHECK(pwrite(sealed, "x", 1, 0) == -1 && errno == EPERM && ftruncate(sealed, 1) == -1 &&
              errno == EPERM);
        CHECK(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM);
        CHECK(fcntl(never, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM &&
              pwrite(never, "x", 1, 0) == 1);
        CHECK(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, sealed, 0) == MAP_FAILED &&
              errno == EPERM);
        // What was mapped before the seal can be written to, nothing else.
        CHECK(pwrite(later, "x", 1, 0) == -1 && errno == EPERM);
        CHECK(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, later, 0) == MAP_FAILED &&
              errno == EPERM);
        mapped[0] = ++mark;
        char answer = 0;
        CHECK(write(orders[1], &mark, 1) == 1 && read(answers[0], &answer, 1) == 1 && answer == 'y');
        CHECK(ftruncate(sized, size + 1) == -1 && errno == EPERM && pwrite(sized, "x", 1, 0) == 1);
        CHECK(ftruncate(open_one, size + 4096) == 0 && ftruncate(open_one, size) == 0);
        if (!last) return;
        CHECK(fcntl(open_one, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    });
}
