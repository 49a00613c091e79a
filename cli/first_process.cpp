#include "cli/first_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "cli/say.h"

namespace cairn::cli {
namespace {

// As shells tell the end by a signal: this process can't die of one.
int exit_code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

[[noreturn]] void be_first_process(pid_t program, const sigset_t& all) {
    for (;;) {
        siginfo_t info{};
        // Signals that are blocked wait also for the first process, which has no handlers.
        const int signal = ::sigwaitinfo(&all, &info);
        if (signal < 0) continue;
        int status = 0;
        for (pid_t ended; signal == SIGCHLD && (ended = ::waitpid(-1, &status, WNOHANG)) > 0;)
            if (ended == program) ::_exit(exit_code_of(status));
        // What the terminal sends has reached the program's group already.
        const bool from_terminal = info.si_code == SI_KERNEL && signal != SIGHUP;
        if (signal != SIGCHLD && !from_terminal) ::kill(program, signal);
    }
}

// The program's group is the terminal's foreground, as if a shell had started it.
void lead_group(bool has_terminal) {
    ::setpgid(0, 0);
    if (has_terminal) ::tcsetpgrp(STDIN_FILENO, ::getpid());
}

}  // namespace

void leave_first_process() {
    if (::getpid() != 1) return;
    const bool has_terminal = ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
    sigset_t all, before;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before);  // no SIGTTOU for the new group either
    const pid_t child = ::fork();
    if (child > 0) be_first_process(child, all);
    if (child < 0)
        complain(std::string("fork: ") + std::strerror(errno) +
                 "; the program is the container's first process");
    if (child == 0) lead_group(has_terminal);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace cairn::cli
