// Requests that keep processors out of deep sleep (/dev/cpu_dma_latency): written as a number and as text, by
// who may not read, held twice and by children, each in force until it is taken back; a reader of the device.
// ci: exact
// rain: soak
// narrow: none
// lock cpu_latency: the kernel tells no more than the strictest request of the whole machine
// root: /dev/cpu_dma_latency is root's
// heirs: none
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "support.h"

namespace {

constexpr std::int32_t no_request = 2'000'000'000;

int open_device(int flags) {
    const int fd = open("/dev/cpu_dma_latency", flags | O_CLOEXEC);
    if (fd < 0) test::skip("/dev/cpu_dma_latency can't be opened");
    return fd;
}

// Of all that anybody on the machine has made.
std::int32_t strictest() {
    const int fd = open_device(O_RDONLY);
    std::int32_t told = 0;
    CHECK(read(fd, &told, sizeof told) == sizeof told);
    close(fd);
    return told;
}

void request(int fd, std::int32_t microseconds) {
    CHECK(write(fd, &microseconds, sizeof microseconds) == sizeof microseconds);
}

void request_by_text(int fd, std::int32_t microseconds) {
    char text[16];
    const int length = std::snprintf(text, sizeof text, "0x%x", static_cast<unsigned>(microseconds));
    CHECK(write(fd, text, static_cast<std::size_t>(length)) == length);
}

// Makes the requests that it is told, by a description that nobody else has, and answers each.
struct Child {
    int orders[2], answers[2];
    pid_t pid;

    Child() {
        CHECK(pipe(orders) == 0 && pipe(answers) == 0);
        pid = fork();
        CHECK(pid >= 0);
        if (pid != 0) return;
        const int own = open_device(O_RDWR);
        std::int32_t order = 0;
        while (read(orders[0], &order, sizeof order) == sizeof order) {
            request(own, order);
            CHECK(write(answers[1], "", 1) == 1);
        }
        _exit(0);
    }
    void tell(std::int32_t microseconds) {
        char answer;
        CHECK(write(orders[1], &microseconds, sizeof microseconds) == sizeof microseconds);
        CHECK(read(answers[0], &answer, 1) == 1);
    }
};

}  // namespace

int main() {
    // Stricter than what others ask for by so little that no processor can tell, and never 0, which would
    // keep them all awake.
    const std::int32_t others = std::min(strictest(), no_request);
    if (others < 10) test::skip("somebody else's request is too strict for one that is stricter");
    const std::int32_t first = others - 3, second = others - 2, third = others - 1;

    const int writer = open_device(O_WRONLY), both = open_device(O_RDWR | O_NONBLOCK), twice = dup(both);
    const int silent = open_device(O_RDWR), reader = open_device(O_RDONLY);
    CHECK(twice >= 0);
    std::int32_t value = 0;
    CHECK(read(reader, &value, 2) == 2);
    Child child;  // it has those of before as well

    const auto request_all = [&] {
        request_by_text(writer, first);
        request(both, second);
        child.tell(third);
    };
    request_all();
    test::serve([&](bool last) {
        // A restart may have made each as strict as the first, or as somebody else's.
        CHECK(strictest() <= first);
        // Nothing was written to it, but a restart can't know that.
        CHECK(read(silent, &value, 4) == 4 && value <= first);
        const int fresh = open_device(O_RDWR);
        CHECK(dup3(fresh, silent, O_CLOEXEC) == silent && close(fresh) == 0);
        request(writer, no_request);
        CHECK(strictest() <= second);
        request(twice, no_request);
        CHECK(strictest() <= third);
        child.tell(no_request);
        request_all();
        CHECK(strictest() <= first);

        CHECK(read(writer, &value, 4) == -1 && errno == EBADF);
        CHECK(pread(both, &value, 4, 0) == 4 && value <= first);
        CHECK((fcntl(both, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDWR | O_NONBLOCK));
        CHECK(write(reader, &value, 4) == -1 && errno == EBADF);
        // It is in the middle of the number, and nothing brings it back to the begin: lseek(2) doesn't.
        CHECK(read(reader, &value, 4) == 2 && read(reader, &value, 4) == 0);
        const int other = open_device(O_RDONLY);
        CHECK(read(other, &value, 2) == 2 && dup3(other, reader, O_CLOEXEC) == reader && close(other) == 0);

        if (!last) return;
        CHECK(kill(child.pid, SIGKILL) == 0 && waitpid(child.pid, nullptr, 0) == child.pid);
    });
}
