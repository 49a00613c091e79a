// Signal handlers, masks, pending signals with their siginfo (of the process and of a thread), alternate
// stacks.
// rain: soak
// heirs: none
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <initializer_list>

#include "support.h"

namespace {
std::atomic<int> handled{0};
std::atomic<bool> on_altstack{false}, stop{false};
siginfo_t last_info;
char altstack[65536];

void handler(int, siginfo_t* info, void*) {
    last_info = *info;
    const char here = 0;
    on_altstack = &here >= altstack && &here < altstack + sizeof altstack;
    ++handled;
}
void other(int) {}

std::atomic<pid_t> thread_id{0}, teller{0};
void* blocked_thread(void*) {
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, nullptr) == 0);
    static char stack[32768];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    CHECK(sigaltstack(&alternate, nullptr) == 0);
    thread_id = gettid();
    while (!stop) {
        test::nap(5);
        stack_t now{};
        CHECK(sigaltstack(nullptr, &now) == 0 && now.ss_sp == stack && now.ss_size == sizeof stack &&
              now.ss_flags == 0);
    }
    // Sent to this very thread before the first checkpoint, by a value, by pthread_kill, by a child's tgkill
    // and by a debugger's signal: still pending here, as they were.
    const auto waits = [](int signal) {
        siginfo_t info{};
        sigset_t wanted;
        sigemptyset(&wanted);
        sigaddset(&wanted, signal);
        const timespec none{0, 0};
        CHECK(sigtimedwait(&wanted, &info, &none) == signal);
        CHECK(sigtimedwait(&wanted, nullptr, &none) == -1 && errno == EAGAIN);
        return info;
    };
    siginfo_t info = waits(SIGRTMIN + 5);
    CHECK(info.si_code == SI_QUEUE && info.si_value.sival_int == 4711 && info.si_pid == getpid());
    info = waits(SIGUSR2);  // libc calls SI_TKILL SI_USER here
    CHECK(info.si_code == SI_USER && info.si_pid == getpid() && info.si_uid == getuid());
    info = waits(SIGURG);
    CHECK(info.si_code == SI_USER && info.si_pid == teller && info.si_uid == getuid());
    waits(SIGTRAP);
    return nullptr;
}

// A process that ignores SIGTRAP, which a restart uses.
pid_t deaf_to_traps() {
    const pid_t child = fork();
    if (child != 0) return child;
    CHECK(signal(SIGTRAP, SIG_IGN) != SIG_ERR);
    for (;;) pause();
}

bool ignores_trap(pid_t pid) {
    char path[64], line[256];
    std::snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE* status = std::fopen(path, "re");
    CHECK(status != nullptr);
    unsigned long ignored = 0;
    while (std::fgets(line, sizeof line, status) != nullptr)
        if (std::strncmp(line, "SigIgn:", 7) == 0) ignored = std::strtoul(line + 7, nullptr, 16);
    std::fclose(status);
    return (ignored >> (SIGTRAP - 1) & 1) != 0;
}

// The numbers that libc keeps for itself aside.
template <class Expected>
void check_set(const sigset_t& set, Expected expected) {
    for (int signal = 1; signal < 65; ++signal)
        if (signal < 32 || signal > 33) CHECK(sigismember(&set, signal) == expected(signal));
}

// Takes one that is pending, which has to be there.
siginfo_t taken(int signal) {
    siginfo_t info{};
    const timespec none{0, 0};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    CHECK(sigtimedwait(&one, &info, &none) == signal);
    return info;
}

test::Check handlers() {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaddset(&action.sa_mask, SIGHUP);
    CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
    struct sigaction simple {};
    simple.sa_handler = other;
    simple.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    CHECK(sigaction(SIGUSR2, &simple, nullptr) == 0);
    CHECK(sigaction(SIGTRAP, &action, nullptr) == 0);  // a restart traps
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    CHECK(sigaction(SIGPIPE, &ignore, nullptr) == 0);
    return [](bool) {
        struct sigaction now {};
        CHECK(sigaction(SIGUSR1, nullptr, &now) == 0 && now.sa_sigaction == handler);
        CHECK((now.sa_flags & (SA_SIGINFO | SA_ONSTACK | SA_NODEFER)) ==
              (SA_SIGINFO | SA_ONSTACK | SA_NODEFER));
        CHECK(sigismember(&now.sa_mask, SIGHUP) == 1 && sigismember(&now.sa_mask, SIGINT) == 0);
        CHECK(sigaction(SIGUSR2, nullptr, &now) == 0 && now.sa_handler == other);
        CHECK((now.sa_flags & SA_RESTART) != 0 && (static_cast<unsigned>(now.sa_flags) & SA_RESETHAND) != 0);
        CHECK(sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_IGN);
        CHECK(sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_DFL);
        CHECK(sigaction(SIGTRAP, nullptr, &now) == 0 && now.sa_sigaction == handler);
    };
}

test::Check ignored_trap() {
    const pid_t deaf = deaf_to_traps();
    while (!ignores_trap(deaf)) test::nap(1);
    return [=](bool last) { CHECK(ignores_trap(deaf) && (!last || kill(deaf, SIGKILL) == 0)); };
}

test::Check blocked() {
    sigset_t mask;
    sigemptyset(&mask);
    for (const int signal : {SIGTERM, SIGQUIT, SIGTRAP, SIGRTMIN + 1, SIGRTMIN + 2, SIGRTMAX})
        sigaddset(&mask, signal);
    CHECK(pthread_sigmask(SIG_SETMASK, &mask, nullptr) == 0);
    return [=](bool) {
        sigset_t is;
        CHECK(pthread_sigmask(SIG_SETMASK, nullptr, &is) == 0);
        check_set(is, [&](int signal) { return sigismember(&mask, signal); });
    };
}

// Three queued ones of one number keep their order and values; a standard one is there once.
test::Check pending() {
    for (int i = 0; i < 3; ++i) CHECK(sigqueue(getpid(), SIGRTMIN + 1, sigval{.sival_int = 100 + i}) == 0);
    CHECK(sigqueue(getpid(), SIGRTMAX, sigval{.sival_ptr = &last_info}) == 0);
    CHECK(kill(getpid(), SIGTERM) == 0);
    CHECK(raise(SIGQUIT) == 0);
    CHECK(raise(SIGTRAP) == 0);
    return [](bool last) {
        sigset_t waiting;
        CHECK(sigpending(&waiting) == 0);
        check_set(waiting, [](int signal) {
            return signal == SIGTERM || signal == SIGQUIT || signal == SIGTRAP || signal == SIGRTMIN + 1 ||
                   signal == SIGRTMAX;
        });
        if (!last) return;
        for (int i = 0; i < 3; ++i) {
            const siginfo_t info = taken(SIGRTMIN + 1);
            CHECK(info.si_code == SI_QUEUE);
            CHECK(info.si_value.sival_int == 100 + i && info.si_pid == getpid() && info.si_uid == getuid());
        }
        CHECK(sigpending(&waiting) == 0 && sigismember(&waiting, SIGRTMIN + 1) == 0);
        CHECK(taken(SIGRTMAX).si_value.sival_ptr == &last_info);
        const siginfo_t info = taken(SIGTERM);
        CHECK(info.si_code == SI_USER && info.si_pid == getpid());
        CHECK(taken(SIGQUIT).si_pid == getpid());
    };
}

test::Check alternate_stack() {
    stack_t alternate{};
    alternate.ss_sp = altstack;
    alternate.ss_size = sizeof altstack;
    CHECK(sigaltstack(&alternate, nullptr) == 0);
    return [](bool) {
        stack_t stack{};
        CHECK(sigaltstack(nullptr, &stack) == 0 && stack.ss_sp == altstack &&
              stack.ss_size == sizeof altstack);
        const int before = handled;
        CHECK(sigqueue(getpid(), SIGUSR1, sigval{.sival_int = 5}) == 0);
        for (int i = 0; i < 100 && handled == before; ++i) test::nap(1);
        CHECK(handled == before + 1 && on_altstack && last_info.si_value.sival_int == 5 &&
              last_info.si_pid == getpid());
    };
}

test::Check pending_for_a_thread() {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, blocked_thread, nullptr) == 0);
    while (thread_id == 0) test::nap(1);
    CHECK(pthread_sigqueue(thread, SIGRTMIN + 5, sigval{.sival_int = 4711}) == 0);
    CHECK(pthread_kill(thread, SIGUSR2) == 0);
    teller = fork();
    if (teller == 0) _exit(tgkill(getppid(), thread_id, SIGURG) == 0 ? 0 : 1);
    int status = -1;
    CHECK(waitpid(teller, &status, 0) == teller && status == 0);
    CHECK(pthread_kill(thread, SIGTRAP) == 0);
    return [=](bool last) {
        if (!last) return;
        stop = true;
        CHECK(pthread_join(thread, nullptr) == 0);
    };
}
}  // namespace

int main() {
    test::serve({{"an ignored SIGTRAP", ignored_trap},
                 {"handlers", handlers},
                 {"the mask", blocked},
                 {"pending", pending},
                 {"the alternate stack", alternate_stack},
                 {"pending for a thread", pending_for_a_thread}});
}
