// eventfd(2): empty, counting, as a semaphore, nonblocking, full, held twice and by a child, with readers and
// a writer asleep in it.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "support.h"

namespace {

constexpr std::uint64_t full = ~std::uint64_t{0} - 1;

bool ready(int fd, short events) {
    pollfd polled{fd, events, 0};
    return poll(&polled, 1, 0) == 1;
}
void add(int fd, std::uint64_t value) {
    CHECK(write(fd, &value, sizeof value) == sizeof value);
}
std::uint64_t take(int fd) {
    std::uint64_t value = 0;
    CHECK(read(fd, &value, sizeof value) == sizeof value);
    return value;
}
// Counts what it is given and sleeps for more.
void count(int fd, std::atomic<std::uint64_t>& sum) {
    for (;;) sum += take(fd);
}

}  // namespace

int main() {
    const int empty = eventfd(0, EFD_NONBLOCK), counting = eventfd(41, EFD_CLOEXEC),
              semaphore = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK), stuffed = eventfd(0, 0);
    CHECK(empty >= 0 && counting >= 0 && semaphore >= 0 && stuffed >= 0);
    add(counting, 1);
    const int twice = dup(counting);

    const int sleepy = eventfd(0, 0), turns = eventfd(0, EFD_SEMAPHORE);
    static std::atomic<std::uint64_t> slept{0}, turned{0}, wrote{0};
    std::thread(count, sleepy, std::ref(slept)).detach();
    for (int i = 0; i < 2; ++i) std::thread(count, turns, std::ref(turned)).detach();
    std::thread([=] {
        for (;; ++wrote) add(stuffed, full);
    }).detach();

    const int to_child = eventfd(0, 0), from_child = eventfd(0, 0);
    const pid_t child = fork();
    if (child == 0)
        for (;;) add(from_child, take(to_child) * 2);
    CHECK(child > 0);

    std::uint64_t all_slept = 0, all_turned = 0, all_wrote = 0;
    const auto until = [](auto condition) {
        for (int i = 0; i < 2000 && !condition(); ++i) test::nap(5);
        return condition();
    };
    test::serve([&](bool last) {
        CHECK(!ready(empty, POLLIN) && ready(empty, POLLOUT));
        std::uint64_t value = 0;
        CHECK(read(empty, &value, 8) == -1 && errno == EAGAIN);
        CHECK((fcntl(empty, F_GETFL) & O_NONBLOCK) != 0 && (fcntl(counting, F_GETFL) & O_NONBLOCK) == 0);
        CHECK(fcntl(counting, F_GETFD) == FD_CLOEXEC && fcntl(twice, F_GETFD) == 0);

        CHECK(take(twice) == 42 && !ready(counting, POLLIN));
        add(counting, 42);
        CHECK(ready(twice, POLLIN));

        for (int i = 0; i < 3; ++i) CHECK(take(semaphore) == 1);
        CHECK(read(semaphore, &value, 8) == -1 && errno == EAGAIN);
        add(semaphore, 3);

        CHECK(slept == all_slept && turned == all_turned);
        add(sleepy, 5);
        all_slept += 5;
        add(turns, 4);
        all_turned += 4;
        CHECK(until([&] { return slept == all_slept && turned == all_turned; }));

        // Its writer sleeps, and fills it again as soon as it can.
        CHECK(until([&] { return wrote == all_wrote + 1; }) && !ready(stuffed, POLLOUT));
        CHECK(take(stuffed) == full);
        all_wrote += 1;

        add(to_child, 21);
        CHECK(take(from_child) == 42);
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    });
}
