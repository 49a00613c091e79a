// Threads each asleep in another interruptible call or wait of pthread. No call may return early, late or
// with EINTR. Usage: sleeping LONGEST_MS. Prints the worst deviation of a timed call in microseconds.
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

namespace {
long longest_ms = 400;
std::atomic<bool> stop{false}, stop_endless{false};
std::atomic<long> worst_us{0}, calls{0};
std::atomic<int> untimed_waiting{0}, untimed_woken{0};

timespec to_timespec(double seconds) {
    const auto whole = static_cast<time_t>(seconds);
    return {whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
}

// One timed call: must take `seconds` by its own clock and say that it timed out. The time of day may be set
// by whoever keeps it right while a call waits for it, and then it took less by the other clock.
using Timed = bool (*)(double seconds);

pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;  // main holds it
pthread_rwlock_t never_rw = PTHREAD_RWLOCK_INITIALIZER;
int silent_pipe[2];
sem_t silent_semaphore;
pthread_t endless;

bool by_nanosleep(double seconds) {
    const timespec time = to_timespec(seconds);
    return nanosleep(&time, nullptr) == 0;
}
bool by_clock_nanosleep(double seconds) {
    const timespec time = to_timespec(seconds);
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr) == 0;
}
bool by_absolute(double seconds) {
    const timespec time = to_timespec(test::now() + seconds);
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == 0;
}
bool by_absolute_realtime(double seconds) {
    const timespec time = to_timespec(test::now(CLOCK_REALTIME) + seconds);
    return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, nullptr) == 0;
}
bool by_usleep(double seconds) {
    return usleep(static_cast<useconds_t>(seconds * 1e6)) == 0;
}
bool by_poll(double seconds) {
    pollfd one{silent_pipe[0], POLLIN, 0};
    return poll(&one, 1, static_cast<int>(seconds * 1000)) == 0;
}
bool by_poll_none(double seconds) {
    return poll(nullptr, 0, static_cast<int>(seconds * 1000)) == 0;
}
bool by_ppoll(double seconds) {
    pollfd one{silent_pipe[0], POLLIN, 0};
    const timespec time = to_timespec(seconds);
    sigset_t set;
    sigfillset(&set);
    return ppoll(&one, 1, &time, &set) == 0;
}
bool by_select(double seconds) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(silent_pipe[0], &set);
    timeval time{static_cast<time_t>(seconds),
                 static_cast<suseconds_t>((seconds - static_cast<long>(seconds)) * 1e6)};
    return select(silent_pipe[0] + 1, &set, nullptr, nullptr, &time) == 0;
}
bool by_pselect(double seconds) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(silent_pipe[0], &set);
    const timespec time = to_timespec(seconds);
    return pselect(silent_pipe[0] + 1, &set, nullptr, nullptr, &time, nullptr) == 0;
}
bool by_sigtimedwait(double seconds) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 9);
    const timespec time = to_timespec(seconds);
    return sigtimedwait(&set, nullptr, &time) == -1 && errno == EAGAIN;
}
bool by_condition(double seconds) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition, &attributes);
    const timespec time = to_timespec(test::now() + seconds);
    pthread_mutex_lock(&mutex);
    int result = 0;
    while (result == 0) result = pthread_cond_timedwait(&condition, &mutex, &time);
    pthread_mutex_unlock(&mutex);
    return result == ETIMEDOUT;
}
bool by_condition_realtime(double seconds) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    const timespec time = to_timespec(test::now(CLOCK_REALTIME) + seconds);
    pthread_mutex_lock(&mutex);
    int result = 0;
    while (result == 0) result = pthread_cond_timedwait(&condition, &mutex, &time);
    pthread_mutex_unlock(&mutex);
    return result == ETIMEDOUT;
}
bool by_mutex(double seconds) {
    const timespec time = to_timespec(test::now() + seconds);
    return pthread_mutex_clocklock(&never, CLOCK_MONOTONIC, &time) == ETIMEDOUT;
}
bool by_rwlock(double seconds) {
    const timespec time = to_timespec(test::now() + seconds);
    return pthread_rwlock_clockrdlock(&never_rw, CLOCK_MONOTONIC, &time) == ETIMEDOUT;
}
bool by_semaphore(double seconds) {
    const timespec time = to_timespec(test::now() + seconds);
    return sem_clockwait(&silent_semaphore, CLOCK_MONOTONIC, &time) == -1 && errno == ETIMEDOUT;
}
bool by_join(double seconds) {
    const timespec time = to_timespec(test::now() + seconds);
    return pthread_clockjoin_np(endless, nullptr, CLOCK_MONOTONIC, &time) == ETIMEDOUT;
}
bool by_futex(double seconds) {
    static int word = 0;
    const timespec time = to_timespec(seconds);
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0) == -1 && errno == ETIMEDOUT;
}

struct {
    const char* name;
    Timed call;
    clockid_t clock = CLOCK_MONOTONIC;
} const timed[] = {{"nanosleep", by_nanosleep},
                   {"clock_nanosleep", by_clock_nanosleep},
                   {"clock_nanosleep absolute", by_absolute},
                   {"clock_nanosleep absolute, realtime", by_absolute_realtime, CLOCK_REALTIME},
                   {"usleep", by_usleep},
                   {"poll", by_poll},
                   {"poll without descriptors", by_poll_none},
                   {"ppoll", by_ppoll},
                   {"select", by_select},
                   {"pselect", by_pselect},
                   {"sigtimedwait", by_sigtimedwait},
                   {"pthread_cond_timedwait", by_condition},
                   {"pthread_cond_timedwait, realtime", by_condition_realtime, CLOCK_REALTIME},
                   {"pthread_mutex_clocklock", by_mutex},
                   {"pthread_rwlock_clockrdlock", by_rwlock},
                   {"sem_clockwait", by_semaphore},
                   {"pthread_clockjoin_np", by_join},
                   {"futex", by_futex}};
constexpr int timed_count = sizeof timed / sizeof *timed;
constexpr int thread_count = 52;

void* run_timed(void* argument) {
    const auto index = reinterpret_cast<long>(argument);
    const auto& mine = timed[index % timed_count];
    // In steps that poll's milliseconds can express.
    for (long i = 0; !stop; ++i) {
        const long milliseconds = longest_ms / 2 + (index * 37 + i * 61) % (longest_ms / 2);
        const double seconds = static_cast<double>(milliseconds) / 1000;
        const double began = test::now(mine.clock);
        const bool good = mine.call(seconds);
        const double took = test::now(mine.clock) - began;
        if (!good) {
            std::fprintf(stderr, "FAILED %s: not timed out after %.6f of %.6f s: %s\n", mine.name, took,
                         seconds, std::strerror(errno));
            _exit(1);
        }
        if (took < seconds - 0.0015) {
            std::fprintf(stderr, "FAILED %s: %.6f s instead of %.6f s\n", mine.name, took, seconds);
            _exit(1);
        }
        const long deviation = static_cast<long>((took - seconds) * 1e6);
        for (long seen = worst_us; seen < deviation && !worst_us.compare_exchange_weak(seen, deviation);) {
        }
        if (deviation > 20000) std::fprintf(stderr, "late %s %ld us\n", mine.name, deviation);
        ++calls;
    }
    return nullptr;
}

// Calls without a timeout: they return when main wakes them, and not before.
int wake_pipe[2], full_pipe[2];
sem_t wake_semaphore;
pthread_mutex_t wake_mutex = PTHREAD_MUTEX_INITIALIZER, condition_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t wake_condition = PTHREAD_COND_INITIALIZER;
pthread_rwlock_t wake_rw = PTHREAD_RWLOCK_INITIALIZER;
pthread_barrier_t wake_barrier;
pid_t wake_child;
bool condition_met = false;

void* run_untimed(void* argument) {
    const auto index = reinterpret_cast<long>(argument);
    char byte = 0;
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGUSR1);
    pollfd one{wake_pipe[0], POLLIN, 0};
    fd_set fds;
    FD_ZERO(&fds);
    FD_SET(wake_pipe[0], &fds);
    siginfo_t info{};
    int signal = 0, status = 0;
    ++untimed_waiting;
    bool good = false;
    switch (index) {
        case 0:
            good = read(wake_pipe[0], &byte, 1) == 1;
            break;
        case 1:
            good = write(full_pipe[1], &byte, 1) == 1;
            break;
        case 2:
            good = sem_wait(&wake_semaphore) == 0;
            break;
        case 3:
            good = pthread_mutex_lock(&wake_mutex) == 0 && pthread_mutex_unlock(&wake_mutex) == 0;
            break;
        case 4:
            pthread_mutex_lock(&condition_mutex);
            while (!condition_met) pthread_cond_wait(&wake_condition, &condition_mutex);
            good = pthread_mutex_unlock(&condition_mutex) == 0;
            break;
        case 5:
            good = pthread_rwlock_wrlock(&wake_rw) == 0 && pthread_rwlock_unlock(&wake_rw) == 0;
            break;
        case 6:
            pthread_barrier_wait(&wake_barrier);
            good = stop;
            break;
        case 7:
            good = poll(&one, 1, -1) == 1;
            break;
        case 8:
            good = select(wake_pipe[0] + 1, &fds, nullptr, nullptr, nullptr) == 1;
            break;
        case 9:
            good = open("wake-fifo", O_RDONLY) >= 0;
            break;
        case 10:
            good = waitpid(wake_child, &status, 0) == wake_child;
            break;
        case 11:
            sigemptyset(&set);
            sigaddset(&set, SIGRTMIN + 1);
            good = sigwaitinfo(&set, &info) == SIGRTMIN + 1 && stop;
            break;
        case 12:
            sigemptyset(&set);
            sigaddset(&set, SIGRTMIN + 2);
            good = sigwait(&set, &signal) == 0 && stop;
            break;
        default:
            good = sigsuspend(&set) == -1 && errno == EINTR && stop;
            break;
    }
    if (!good || !stop) {
        std::fprintf(stderr, "FAILED untimed call %ld returned: %s\n", index, std::strerror(errno));
        _exit(1);
    }
    ++untimed_woken;
    return nullptr;
}

// Each is woken for its own reason, one after the other.
void wake(const pthread_t* untimed) {
    char block[4096] = {};
    pthread_kill(untimed[11], SIGRTMIN + 1);
    pthread_kill(untimed[12], SIGRTMIN + 2);
    pthread_kill(untimed[13], SIGUSR1);
    pthread_mutex_unlock(&wake_mutex);
    pthread_rwlock_unlock(&wake_rw);
    sem_post(&wake_semaphore);
    pthread_mutex_lock(&condition_mutex);
    condition_met = true;
    pthread_cond_signal(&wake_condition);
    pthread_mutex_unlock(&condition_mutex);
    pthread_barrier_wait(&wake_barrier);
    kill(wake_child, SIGKILL);
    CHECK(read(full_pipe[0], block, sizeof block) == sizeof block);
    const int fifo = open("wake-fifo", O_WRONLY);
    CHECK(fifo >= 0);
    CHECK(write(wake_pipe[1], block, 1) == 1);
    test::nap(50);
    CHECK(write(wake_pipe[1], block, 3) == 3);
}
}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) longest_ms = std::atol(argv[1]);
    sigset_t set;
    sigemptyset(&set);
    for (int i = 1; i < 10; ++i) sigaddset(&set, SIGRTMIN + i);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);
    CHECK(pipe(silent_pipe) == 0 && pipe(wake_pipe) == 0 && pipe2(full_pipe, O_NONBLOCK) == 0);
    char block[4096] = {};
    while (write(full_pipe[1], block, sizeof block) > 0) {
    }
    while (write(full_pipe[1], block, 1) > 0) {
    }
    fcntl(full_pipe[1], F_SETFL, 0);
    sem_init(&silent_semaphore, 0, 0);
    sem_init(&wake_semaphore, 0, 0);
    pthread_mutex_lock(&never);
    pthread_rwlock_wrlock(&never_rw);
    pthread_mutex_lock(&wake_mutex);
    pthread_rwlock_rdlock(&wake_rw);
    pthread_barrier_init(&wake_barrier, nullptr, 2);
    CHECK(mkfifo("wake-fifo", 0600) == 0 || errno == EEXIST);
    wake_child = fork();
    if (wake_child == 0) {
        for (;;) pause();
    }
    constexpr int untimed_count = 14;
    pthread_t threads[thread_count], untimed[untimed_count];
    CHECK(pthread_create(
              &endless, nullptr,
              [](void*) -> void* {
                  while (!stop_endless) test::nap(50);
                  return nullptr;
              },
              nullptr) == 0);
    for (long i = 0; i < untimed_count; ++i)
        CHECK(pthread_create(&untimed[i], nullptr, run_untimed, reinterpret_cast<void*>(i)) == 0);
    while (untimed_waiting < untimed_count) test::nap(5);
    for (long i = 0; i < thread_count; ++i)
        CHECK(pthread_create(&threads[i], nullptr, run_timed, reinterpret_cast<void*>(i)) == 0);
    test::Orders orders;
    test::say("READY");
    while (orders.next()) {
        CHECK(untimed_woken == 0);
        std::printf("worst %ld us in %ld calls\n", worst_us.load(), calls.load());
        std::fflush(stdout);
        orders.answer();
    }
    CHECK(untimed_woken == 0);
    stop = true;
    for (auto& thread : threads) pthread_join(thread, nullptr);
    stop_endless = true;
    pthread_join(endless, nullptr);
    std::printf("worst %ld us in %ld calls\n", worst_us.load(), calls.load());
    std::fflush(stdout);
    wake(untimed);
    for (auto& thread : untimed) pthread_join(thread, nullptr);
    CHECK(untimed_woken == untimed_count);
    test::say("EXIT-SUCCESS");
    _exit(0);
}
