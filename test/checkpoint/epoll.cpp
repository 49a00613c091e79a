// epoll(7): level- and edge-triggered, oneshot armed and disarmed, exclusive, nested, data words, one file
// under two numbers, a number that is another file's by now, shared with a child, threads asleep in
// epoll_wait.
// ci: exact user
// rain: soak
// narrow: exact user
// heirs: exact
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <thread>

#include "support.h"

namespace {

void add(int fd, std::uint64_t value = 1) {
    CHECK(write(fd, &value, sizeof value) == sizeof value);
}
std::uint64_t take(int fd) {
    std::uint64_t value = 0;
    CHECK(read(fd, &value, sizeof value) == sizeof value);
    return value;
}
void watch(int epoll, int fd, std::uint32_t events, std::uint64_t data) {
    epoll_event event{events, {.u64 = data}};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}
std::map<std::uint64_t, std::uint32_t> poll_once(int epoll, int milliseconds = 0) {
    epoll_event events[16];
    const int count = epoll_wait(epoll, events, 16, milliseconds);
    CHECK(count >= 0);
    std::map<std::uint64_t, std::uint32_t> found;
    for (int i = 0; i < count; ++i) found[events[i].data.u64] = events[i].events;
    return found;
}
using Found = std::map<std::uint64_t, std::uint32_t>;

// One epoll watches most things: each case leaves nothing ready in it.
int main_epoll() {
    static const int epoll = epoll_create1(EPOLL_CLOEXEC);
    return epoll;
}

// Level- and edge-triggered, oneshot armed and disarmed; one description under two numbers.
test::Check triggers() {
    constexpr std::uint64_t level = 0x1122334455667788, edge = 2, armed = 3, spent = 4, pipe_spent = 5,
                            second_number = 7, old_number = ~std::uint64_t{0};
    const int epoll = main_epoll();
    const int levelled = eventfd(0, 0), edged = eventfd(0, 0), oneshot = eventfd(0, 0), used = eventfd(1, 0);
    std::array<int, 2> ends{}, lonely{};
    CHECK(pipe(ends.data()) == 0);
    watch(epoll, levelled, EPOLLIN, level);
    watch(epoll, edged, EPOLLIN | EPOLLET, edge);
    watch(epoll, oneshot, EPOLLIN | EPOLLONESHOT, armed);
    watch(epoll, used, EPOLLIN | EPOLLONESHOT, spent);
    watch(epoll, ends[0], EPOLLIN | EPOLLONESHOT, pipe_spent);
    CHECK(write(ends[1], "x", 1) == 1 &&
          poll_once(epoll) == (Found{{spent, EPOLLIN}, {pipe_spent, EPOLLIN}}));
    char first;
    CHECK(read(ends[0], &first, 1) == 1);
    // A pipe without a writer would say EPOLLHUP to anything but a spent oneshot.
    CHECK(pipe(lonely.data()) == 0);
    watch(epoll, lonely[0], EPOLLIN | EPOLLONESHOT, 99);
    CHECK(close(lonely[1]) == 0 && poll_once(epoll) == (Found{{99, EPOLLHUP}}));
    // The same description under two numbers, and a number that has come to mean something else.
    const int twice = dup(levelled);
    watch(epoll, twice, EPOLLIN, second_number);
    const int renamed = dup(oneshot);
    watch(epoll, renamed, EPOLLIN, old_number);
    CHECK(dup2(ends[1], renamed) == renamed);
    return [=](bool) {
        CHECK(fcntl(epoll, F_GETFD) == FD_CLOEXEC);
        CHECK(poll_once(epoll).empty());  // `used` counts 1, but is spent
        add(levelled);
        CHECK(poll_once(epoll) == (Found{{level, EPOLLIN}, {second_number, EPOLLIN}}) &&
              !poll_once(epoll).empty());
        take(levelled);
        add(edged);
        CHECK(poll_once(epoll) == (Found{{edge, EPOLLIN}}) && poll_once(epoll).empty());
        take(edged);
        add(oneshot);
        CHECK(poll_once(epoll) == (Found{{armed, EPOLLIN}, {old_number, EPOLLIN}}));
        CHECK(poll_once(epoll) == (Found{{old_number, EPOLLIN}}));
        take(oneshot);
        // Known by the number that they were added under.
        epoll_event again{EPOLLIN | EPOLLONESHOT, {.u64 = armed}};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, oneshot, &again) == 0);
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, levelled, &again) == -1 && errno == EEXIST);
        // The spent ones can be armed, and are then as they were.
        again.data.u64 = spent;
        CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, used, &again) == 0);
        again.data.u64 = pipe_spent;
        CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, ends[0], &again) == 0 && write(renamed, "y", 1) == 1);
        CHECK(poll_once(epoll) == (Found{{spent, EPOLLIN}, {pipe_spent, EPOLLIN}}));
        char byte;
        CHECK(read(ends[0], &byte, 1) == 1 && byte == 'y' && poll_once(epoll).empty());
    };
}

// An epoll in an epoll in an epoll.
test::Check nested() {
    constexpr std::uint64_t inner_data = 6;
    const int inner = epoll_create1(0), innermost = epoll_create1(0), deep = eventfd(0, 0);
    watch(innermost, deep, EPOLLIN, 1);
    watch(inner, innermost, EPOLLIN, 2);
    watch(main_epoll(), inner, EPOLLIN, inner_data);
    return [=](bool) {
        add(deep);
        CHECK(poll_once(main_epoll()) == (Found{{inner_data, EPOLLIN}}) &&
              poll_once(inner) == (Found{{2, EPOLLIN}}) && poll_once(innermost) == (Found{{1, EPOLLIN}}));
        take(deep);
    };
}

// Each event is for one of them, once; one waits in an epoll where there is never an event.
test::Check threads_asleep() {
    const int busy = epoll_create1(0), job = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    watch(busy, job, EPOLLIN | EPOLLET, 77);
    static std::atomic<int> done{0}, timeouts{0};
    for (int i = 0; i < 3; ++i)
        std::thread([=] {
            for (epoll_event event{};;) {
                const int got = epoll_wait(busy, &event, 1, -1);
                CHECK(got == 1 && event.data.u64 == 77);
                for (std::uint64_t one; read(job, &one, 8) == 8;) ++done;
            }
        }).detach();
    const int quiet = epoll_create1(0);
    std::thread([=] {
        for (epoll_event event{};;) {
            const double began = test::now();
            CHECK(epoll_wait(quiet, &event, 1, 100) == 0);
            CHECK(test::now() - began >= 0.099);
            ++timeouts;
        }
    }).detach();
    return [=, all = 0](bool) mutable {
        CHECK(done == all);
        add(job, 5);
        all += 5;
        const int before = timeouts;
        for (int i = 0; i < 2000 && (done < all || timeouts < before + 2); ++i) test::nap(5);
        CHECK(done == all && timeouts >= before + 2);
    };
}

// A waiter in a child that shares the epoll and the file.
test::Check shared_with_a_child() {
    const int shared = epoll_create1(0), bell = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    watch(shared, bell, EPOLLIN, 8);
    std::array<int, 2> answers{};
    CHECK(pipe(answers.data()) == 0);
    const pid_t child = fork();
    if (child == 0)
        for (;;) {
            CHECK(poll_once(shared, -1) == (Found{{8, EPOLLIN}}));
            std::uint64_t one;
            if (read(bell, &one, 8) == 8 && write(answers[1], "a", 1) != 1) _exit(1);
        }
    CHECK(child > 0);
    return [=](bool last) {
        add(bell);
        char byte;
        CHECK(read(answers[0], &byte, 1) == 1 && byte == 'a');
        // The edge of what is ready already is given once more after a restart: epoll(7) allows it; none is
        // lost.
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

}  // namespace

int main() {
    test::serve({{"level, edge and oneshot", triggers},
                 {"an epoll in an epoll", nested},
                 {"threads asleep", threads_asleep},
                 {"shared with a child", shared_with_a_child}});
}
