// Threads that give ids to the kernel nearly all the time, in registers, in memory and in paths: a stop is
// likely to come when an id has been translated and its call not yet made. After a restart the kernel knows
// the processes by other ids.
// rain: soak
// heirs: none
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>

#include "support.h"

namespace {

pid_t me = 0, child = 0;
std::atomic<bool> stop{false};
std::atomic<unsigned> rounds{0};  // that all threads are to do; for who is watched and does nothing else

void queue_to_oneself() {
    CHECK(sigqueue(me, SIGRTMIN + 3, sigval{}) == 0);  // ignored
}

void signal_the_child() {
    CHECK(kill(child, 0) == 0);
}

void ask_the_scheduler() {
    cpu_set_t set;
    CHECK(sched_getaffinity(child, sizeof set, &set) == 0);
    CHECK(sched_getscheduler(child) >= 0);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, static_cast<id_t>(child)) != -1 || errno == 0);
    rlimit64 limit;
    CHECK(prlimit64(child, RLIMIT_CORE, nullptr, &limit) == 0);
}

void open_by_id() {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(child));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(close(fd) == 0);
}

void own_a_pipe() {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    f_owner_ex owner{F_OWNER_PID, child}, found{};
    CHECK(fcntl(ends[0], F_SETOWN_EX, &owner) == 0);
    CHECK(fcntl(ends[1], F_SETOWN, me) == 0);
    CHECK(fcntl(ends[0], F_GETOWN_EX, &found) == 0 && found.pid == child);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

void ask_for_groups() {
    CHECK(getpgid(child) == getpgrp() && getsid(child) == getsid(0));
    CHECK(getpid() == me);
    CHECK(waitpid(child, nullptr, WNOHANG) == 0);
}

template <void (*action)()>
void* again_and_again(void*) {
    for (unsigned done = 0; !stop; ++done) {
        while (test::is_watched() && done == rounds && !stop) test::nap(20);
        for (int i = 0; i < 1000; ++i) action();
        test::nap(1);
    }
    return nullptr;
}

}  // namespace

int main() {
    CHECK(signal(SIGRTMIN + 3, SIG_IGN) != SIG_ERR);
    me = getpid();
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        while (getppid() == me) test::nap(20);
    void* (*const all[])(void*) = {again_and_again<queue_to_oneself>,  again_and_again<signal_the_child>,
                                   again_and_again<ask_the_scheduler>, again_and_again<open_by_id>,
                                   again_and_again<own_a_pipe>,        again_and_again<ask_for_groups>};
    constexpr std::size_t count = std::size(all);
    pthread_t threads[count];
    for (std::size_t i = 0; i < count; ++i) CHECK(pthread_create(&threads[i], nullptr, all[i], nullptr) == 0);
    test::serve([&](bool last) {
        ++rounds;
        test::nap(50);
        if (!last) return;
        stop = true;
        for (const pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    });
}
