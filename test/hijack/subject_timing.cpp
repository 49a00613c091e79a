// While a thread sleeps in each call, its note must name the system call that the kernel says it is in, and
// its length.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "common/agent.h"
#include "hijack/raw.h"
#include "test/hijack/subject.h"

namespace subject {
namespace {

std::atomic<int> sleeper;
std::atomic<char*> thread_pointer;

const cairn::Door* door_of(std::int32_t slot) {
    return reinterpret_cast<const cairn::Door*>(region()->slots[slot].door.load());
}

cairn::TimingNote note_at(char* thread) {
    const auto slot = cairn::find_slot(*region(), cairn::hijack::raw::pid());
    return *reinterpret_cast<cairn::TimingNote*>(thread + door_of(slot)->timing_tls);
}

void* run(void* call) {
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, nullptr);
    thread_pointer = static_cast<char*>(__builtin_thread_pointer());
    sleeper = static_cast<int>(syscall(SYS_gettid));
    (*static_cast<std::function<void()>*>(call))();
    return nullptr;
}

// The system call that a thread sleeps in, -1 while it runs.
long call_of(int tid) {
    char path[64], text[16] = {};
    std::snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    FILE* file = std::fopen(path, "r");
    if (file == nullptr) return -1;
    const bool got = std::fgets(text, sizeof text, file) != nullptr;
    std::fclose(file);
    return got && text[0] >= '0' && text[0] <= '9' ? std::atol(text) : -1;
}

// Starts a thread in `call`, waits until it sleeps, compares, and cancels it: a cancellation point it must
// have stayed.
void check(const char* name, std::int64_t length_ns, std::function<void()> call) {
    sleeper = 0;
    pthread_t thread{};
    EXPECT(pthread_create(&thread, nullptr, run, &call) == 0);
    const timespec moment = {0, 2'000'000};
    long number = -1;
    for (int i = 0; i < 2000 && number <= 0; ++i) {
        nanosleep(&moment, nullptr);
        if (sleeper != 0) number = call_of(sleeper);
    }
    const cairn::TimingNote note = note_at(thread_pointer);
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t now_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    const bool right = length_ns < 0 ? note.call == 0 && note.began_ns == 0
                                     : note.call == number && note.length_ns == length_ns &&
                                           note.began_ns <= now_ns && now_ns - note.began_ns < 5'000'000'000;
    if (!right)
        std::fprintf(stderr, "%s: in system call %ld, noted %d, %lld ns\n", name, number, note.call,
                     static_cast<long long>(note.length_ns));
    EXPECT(right);
    EXPECT(number > 0);  // who hasn't slept has noted nothing either
    EXPECT(pthread_cancel(thread) == 0);
    void* result = nullptr;
    EXPECT(pthread_join(thread, &result) == 0);
    EXPECT(result == PTHREAD_CANCELED);
}

constexpr std::int64_t second = 1'000'000'000;

std::atomic<bool> handled;
void sleeps_itself(int) {
    poll(nullptr, 0, 1);
    handled = true;
}

}  // namespace

int timing(int, char**) {
    EXPECT(is_member());
    const timespec hour = {3600, 5};
    const std::int64_t hour_ns = 3600 * second + 5;
    int fds[2];
    EXPECT(pipe(fds) == 0);
    const int poller = epoll_create1(0);
    epoll_event event = {};
    EXPECT(epoll_ctl(poller, EPOLL_CTL_ADD, fds[0], &event) == 0);
    check("nanosleep", hour_ns, [=] { nanosleep(&hour, nullptr); });
    check("clock_nanosleep", hour_ns, [=] { clock_nanosleep(CLOCK_BOOTTIME, 0, &hour, nullptr); });
    check("clock_nanosleep absolute", -1, [=] {
        const timespec far = {4'000'000'000, 0};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &far, nullptr);
    });
    check("thrd_sleep", hour_ns, [=] { thrd_sleep(&hour, nullptr); });
    check("sleep", 3600 * second, [] { sleep(3600); });
    check("usleep", 900'000 * 1000LL, [] {
        for (;;) usleep(900'000);
    });
    check("poll", 3600 * second, [] { poll(nullptr, 0, 3'600'000); });
    check("poll for ever", -1, [] { poll(nullptr, 0, -1); });
    check("ppoll", hour_ns, [=] { ppoll(nullptr, 0, &hour, nullptr); });
    check("select", 3600 * second + 7000, [] {
        timeval time = {3600, 7};
        select(0, nullptr, nullptr, nullptr, &time);
    });
    check("pselect", hour_ns, [=] { pselect(0, nullptr, nullptr, nullptr, &hour, nullptr); });
    check("epoll_wait", 3600 * second, [=] {
        epoll_event got;
        epoll_wait(poller, &got, 1, 3'600'000);
    });
    check("epoll_pwait", 3600 * second, [=] {
        epoll_event got;
        epoll_pwait(poller, &got, 1, 3'600'000, nullptr);
    });
    check("epoll_pwait2", hour_ns, [=] {
        epoll_event got;
        epoll_pwait2(poller, &got, 1, &hour, nullptr);
    });
    check("sigtimedwait", hour_ns, [=] {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        sigtimedwait(&set, nullptr, &hour);
    });
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    check("recvmmsg", hour_ns, [&] {
        mmsghdr message = {};
        timespec time = hour;
        recvmmsg(pair[0], &message, 1, 0, &time);
    });

    // A handler that sleeps itself puts the note back.
    struct sigaction action = {};
    action.sa_handler = sleeps_itself;
    action.sa_flags = SA_RESTART;
    EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
    const auto slot = cairn::find_slot(*region(), cairn::hijack::raw::pid());
    auto* own = reinterpret_cast<cairn::TimingNote*>(static_cast<char*>(__builtin_thread_pointer()) +
                                                     door_of(slot)->timing_tls);
    *own = {.began_ns = 1, .length_ns = 2, .call = 3, .call_frame = 0};
    EXPECT(raise(SIGUSR1) == 0);
    EXPECT(handled);
    EXPECT(own->began_ns == 1 && own->length_ns == 2 && own->call == 3);
    return 0;
}

}  // namespace subject
