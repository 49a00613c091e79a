#include "coordinator/tool_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "common/own_process.h"
#include "coordinator/process_handle.h"

namespace cairn::coordinator {

Result<ToolProcess> start_tool(std::vector<std::string> words, const Fd& output, const Fd& third) {
    const std::string program = words.at(0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
        ::posix_spawn_file_actions_adddup2(&actions, output.get(), fd);
    // From a number above 3: a dup2 of 3 to 3 would keep close-on-exec.
    const Fd high(third ? ::fcntl(third.get(), F_DUPFD_CLOEXEC, 10) : -1);
    if (third) ::posix_spawn_file_actions_adddup2(&actions, high.get(), 3);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes,
        static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
    std::vector<std::string> kept = own_environment();
    std::vector<char*> argv, environment;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : kept) environment.push_back(variable.data());
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    ToolProcess started;
    errno =
        ::posix_spawn(&started.pid, program.c_str(), &actions, &attributes, argv.data(), environment.data());
    const int problem = errno;
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    errno = problem;
    if (problem != 0)
        return fail_errno(
            "{} can't be started{}", program,
            problem == EAGAIN ? " (as many processes run as the user may have: see `ulimit -u`)" : "");
    // Ours and not reaped: the pid can't have been given away.
    started.pidfd = open_pidfd(started.pid);
    if (started.pidfd) return started;
    const int number = errno;
    ::kill(started.pid, SIGKILL);
    ::waitpid(started.pid, nullptr, 0);
    errno = number;
    return fail_errno("pidfd_open of {}", program);
}

}  // namespace cairn::coordinator
