// A program with functions of libc's names of its own, which call the next ones of those names, as Erlang
// does with sigaction: the next one is the library's, which mustn't call the program's in turn.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#define OWN extern "C" __attribute__((visibility("default")))

namespace {

// Each of them is called by main alone.
int depth = 0;

template <class Function, class... Arguments>
auto next(const char* name, Function* /*only its type*/, Arguments... arguments) {
    if (++depth > 1) {
        std::fprintf(stderr, "%s was called by somebody else\n", name);
        std::_Exit(1);
    }
    const auto result = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name))(arguments...);
    --depth;
    return result;
}

int caught = 0;

}  // namespace

OWN int sigaction(int number, const struct sigaction* wanted, struct sigaction* old) noexcept {
    return next("sigaction", &::sigaction, number, wanted, old);
}
// By way of the name with underscores, as Erlang does.
OWN int __sigaction(int number, const struct sigaction* wanted, struct sigaction* old) noexcept {
    return next("__sigaction", &::sigaction, number, wanted, old);
}
OWN sighandler_t signal(int number, sighandler_t handler) noexcept {
    return next("ssignal", &::signal, number, handler);
}
OWN int nanosleep(const timespec* time, timespec* left) {
    return next("nanosleep", &::nanosleep, time, left);
}
OWN int poll(pollfd* list, nfds_t count, int timeout) {
    return next("poll", &::poll, list, count, timeout);
}
OWN int usleep(useconds_t time) {
    return next("usleep", &::usleep, time);
}
OWN pid_t getpid() noexcept {
    return next("getpid", &::getpid);
}
OWN pid_t getpgrp() noexcept {
    return next("getpgrp", &::getpgrp);
}
OWN pid_t getpgid(pid_t pid) noexcept {
    return next("getpgid", &::getpgid, pid);
}
OWN int setpgid(pid_t pid, pid_t group) noexcept {
    return next("setpgid", &::setpgid, pid, group);
}
OWN int setpgrp() noexcept {
    return next("setpgrp", &::setpgrp);
}
OWN pid_t waitpid(pid_t pid, int* status, int options) {
    return next("waitpid", &::waitpid, pid, status, options);
}
OWN pid_t wait(int* status) {
    return next("wait", &::wait, status);
}
OWN pid_t fork() noexcept {
    return next("fork", &::fork);
}

int main() {
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void*) { ++caught; };
    action.sa_flags = SA_SIGINFO;
    const timespec moment{0, 1000};
    bool fine = sigaction(SIGUSR1, &action, nullptr) == 0 && __sigaction(SIGUSR2, &action, nullptr) == 0 &&
                signal(SIGHUP, SIG_IGN) != SIG_ERR && nanosleep(&moment, nullptr) == 0 &&
                poll(nullptr, 0, 1) == 0 && usleep(1) == 0 && setpgid(0, 0) == 0 && setpgrp() == 0;
    fine = fine && getpgid(0) == getpgrp() && getpid() == getpgrp();
    fine = fine && raise(SIGUSR1) == 0 && raise(SIGUSR2) == 0 && caught == 2;
    for (const bool by_pid : {true, false}) {
        const pid_t child = fork();
        if (child == 0) std::_Exit(getpid() > 0 ? 7 : 1);
        int status = 0;
        fine = fine && (by_pid ? waitpid(child, &status, 0) : wait(&status)) == child &&
               WEXITSTATUS(status) == 7;
    }
    return fine ? 0 : 1;
}
