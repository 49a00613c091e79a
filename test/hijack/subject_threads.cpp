// Threads with virtual tids: signals, cancellation, attributes, and mutexes of every kind.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>

#include "hijack/raw.h"
#include "test/hijack/subject.h"
#include "test/hijack/subject_ids.h"

namespace raw = cairn::hijack::raw;

namespace subject {
namespace {

struct Thread {
    std::function<void()> run;
    pthread_t handle{};
    std::atomic<pid_t> tid = 0;

    explicit Thread(std::function<void()> todo) : run(std::move(todo)) {
        EXPECT(pthread_create(&handle, nullptr, main, this) == 0);
        while (tid == 0) usleep(1000);
    }
    static void* main(void* self) {
        auto* thread = static_cast<Thread*>(self);
        make_virtual();
        EXPECT(gettid() == raw::tid().number() + far);
        thread->tid = gettid();
        thread->run();
        return nullptr;
    }
    void* join() const {
        void* result = nullptr;
        EXPECT(pthread_join(handle, &result) == 0);
        return result;
    }
};

std::atomic<pid_t> handled_by;
std::atomic<int> value;
void handler(int, siginfo_t* info, void*) {
    value = info->si_value.sival_int;
    handled_by = gettid();
}

void wait_until(const std::function<bool()>& is_so) {
    for (int i = 0; i < 5000 && !is_so(); ++i) usleep(1000);
    EXPECT(is_so());
}

void signals() {
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    EXPECT(sigaction(SIGUSR1, &action, nullptr) == 0);
    std::atomic<bool> end = false;
    const Thread thread([&] {
        while (!end) usleep(1000);
    });
    EXPECT(pthread_kill(thread.handle, 0) == 0);
    EXPECT(pthread_kill(thread.handle, SIGUSR1) == 0);
    wait_until([&] { return handled_by == thread.tid; });
    handled_by = 0;
    EXPECT(pthread_sigqueue(thread.handle, SIGUSR1, sigval{.sival_int = 5}) == 0);
    wait_until([&] { return handled_by == thread.tid && value == 5; });
    handled_by = 0;
    EXPECT(tgkill(getpid(), thread.tid, SIGUSR1) == 0);
    wait_until([&] { return handled_by == thread.tid; });
    handled_by = 0;
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = thread.tid;
    timer_t timer{};
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    const itimerspec soon = {{0, 0}, {0, 1000}};
    EXPECT(timer_settime(timer, 0, &soon, nullptr) == 0);
    wait_until([&] { return handled_by == thread.tid; });
    timer_delete(timer);
    EXPECT(pthread_kill(pthread_self(), SIGUSR1) == 0);
    EXPECT(handled_by == gettid());
    end = true;
    thread.join();
}

// What libc tells of a thread, `own` or another one, it asks the kernel for by the tid in the thread's block.
void attributes_of(pthread_t thread) {
    char name[16] = {};
    EXPECT(pthread_setname_np(thread, "renamed") == 0);
    EXPECT(pthread_getname_np(thread, name, sizeof name) == 0 && std::strcmp(name, "renamed") == 0);
    cpu_set_t cpus;
    EXPECT(pthread_getaffinity_np(thread, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 0);
    EXPECT(pthread_setaffinity_np(thread, sizeof cpus, &cpus) == 0);
    int policy = -1;
    sched_param parameters = {};
    EXPECT(pthread_getschedparam(thread, &policy, &parameters) == 0 && policy == SCHED_OTHER);
    EXPECT(pthread_setschedparam(thread, SCHED_BATCH, &parameters) == 0);
    EXPECT(pthread_getschedparam(thread, &policy, &parameters) == 0 && policy == SCHED_BATCH);
    EXPECT(pthread_setschedprio(thread, 0) == 0);
    clockid_t clock;
    timespec time;
    EXPECT(pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &time) == 0);
    pthread_attr_t found;
    void* stack = nullptr;
    std::size_t size = 0;
    EXPECT(pthread_getattr_np(thread, &found) == 0);
    EXPECT(pthread_attr_getstack(&found, &stack, &size) == 0 && stack != nullptr && size >= 16384);
    EXPECT(pthread_attr_getaffinity_np(&found, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 0);
    const auto* here = reinterpret_cast<const char*>(&found);
    const auto* begin = static_cast<const char*>(stack);
    EXPECT((thread == pthread_self()) == (here >= begin && here < begin + size));
    EXPECT(pthread_attr_destroy(&found) == 0);
}

void attributes() {
    std::atomic<bool> end = false;
    const Thread thread([&] {
        while (!end) usleep(1000);
    });
    attributes_of(thread.handle);
    EXPECT(setpriority(PRIO_PROCESS, static_cast<id_t>(thread.tid), 3) == 0);
    EXPECT(getpriority(PRIO_PROCESS, static_cast<id_t>(thread.tid)) == 3);
    end = true;
    thread.join();
    const Thread own([] {
        attributes_of(pthread_self());
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR2);
        EXPECT(pthread_sigmask(SIG_BLOCK, &one, nullptr) == 0);
        EXPECT(pthread_sigqueue(pthread_self(), SIGUSR2, sigval{.sival_int = 8}) == 0);
        siginfo_t info = {};
        EXPECT(sigwaitinfo(&one, &info) == SIGUSR2 && info.si_value.sival_int == 8);
    });
    own.join();
}

void cancelling() {
    const Thread thread([] {
        for (;;) sleep(1000);
    });
    usleep(20'000);
    EXPECT(pthread_cancel(thread.handle) == 0);
    EXPECT(thread.join() == PTHREAD_CANCELED);
}

pthread_mutex_t make_mutex(int type, bool robust, bool inherit) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (inherit) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_t mutex;
    EXPECT(pthread_mutex_init(&mutex, &attributes) == 0);
    return mutex;
}

void mutexes() {
    for (const int type : {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK})
        for (const bool robust : {false, true})
            for (const bool inherit : {false, true}) {
                pthread_mutex_t mutex = make_mutex(type, robust, inherit);
                EXPECT(pthread_mutex_lock(&mutex) == 0);
                if (type == PTHREAD_MUTEX_RECURSIVE) {
                    EXPECT(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_trylock(&mutex) == 0);
                    EXPECT(pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
                }
                if (type == PTHREAD_MUTEX_ERRORCHECK) EXPECT(pthread_mutex_lock(&mutex) == EDEADLK);
                std::atomic<bool> locked = false;
                const Thread other([&] {
                    EXPECT(pthread_mutex_trylock(&mutex) == EBUSY);
                    EXPECT(pthread_mutex_lock(&mutex) == 0);
                    locked = true;
                    if (!robust) EXPECT(pthread_mutex_unlock(&mutex) == 0);
                });  // a robust one: its owner dies
                usleep(5'000);
                EXPECT(!locked);
                EXPECT(pthread_mutex_unlock(&mutex) == 0);
                other.join();
                EXPECT(locked);
                EXPECT(pthread_mutex_lock(&mutex) == (robust ? EOWNERDEAD : 0));
                if (robust) EXPECT(pthread_mutex_consistent(&mutex) == 0);
                EXPECT(pthread_mutex_unlock(&mutex) == 0);
                pthread_mutex_destroy(&mutex);
            }
    pthread_mutex_t mutex = make_mutex(PTHREAD_MUTEX_ERRORCHECK, true, true);
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    bool told = false;
    EXPECT(pthread_mutex_lock(&mutex) == 0);
    const Thread teller([&] {
        EXPECT(pthread_mutex_lock(&mutex) == 0);
        told = true;
        EXPECT(pthread_cond_signal(&condition) == 0 && pthread_mutex_unlock(&mutex) == 0);
    });
    while (!told) EXPECT(pthread_cond_wait(&condition, &mutex) == 0);
    EXPECT(pthread_mutex_unlock(&mutex) == 0);
    teller.join();
    EXPECT(gettid() == raw::tid().number() + far);
}

void users() {
    const uid_t user = getuid();
    std::atomic<bool> end = false;
    const Thread thread([&] {
        while (!end) usleep(1000);
    });
    errno = 0;
    EXPECT(setuid(user) == -1 && errno == EAGAIN);
    EXPECT(setresgid(getgid(), getgid(), getgid()) == -1 && errno == EAGAIN);
    end = true;
    thread.join();
    EXPECT(setuid(user) == 0);
}

int c11_main(void* argument) {
    return *static_cast<int*>(argument) + 1;
}

void c11() {
    thrd_t thread;
    int number = 6, result = 0;
    EXPECT(thrd_create(&thread, c11_main, &number) == thrd_success);
    EXPECT(thrd_join(thread, &result) == thrd_success && result == 7);
}

}  // namespace

int threads(int, char**) {
    signals();
    attributes();
    cancelling();
    mutexes();
    users();
    c11();
    return 0;
}

}  // namespace subject
