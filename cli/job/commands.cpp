#include "cli/job/commands.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

#include "common/fd.h"

namespace cairn::job {
namespace {

using Clock = std::chrono::steady_clock;

// `out`: where its output goes, or -1.
Result<pid_t> spawn_words(const Words& words, int out, Errors errors, Standing standing) {
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    if (standing == Standing::alone)
        for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
            ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    if (out >= 0) {
        ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        if (errors == Errors::taken) ::posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    }
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    const int session = standing == Standing::alone ? POSIX_SPAWN_SETSID : 0;
    ::posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | session));
    pid_t pid = -1;
    errno = ::posix_spawnp(&pid, words.front().c_str(), &actions, &attributes, argv.data(), environ);
    const int problem = errno;
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    errno = problem;
    if (problem != 0) return fail_errno("{}", words.front());
    return pid;
}

}  // namespace

Result<Ended> run_command(const Words& words, std::chrono::seconds patience, Errors errors) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("a pipe for {}", words.front());
    const Fd reading(ends[0]);
    Fd writing(ends[1]);
    const pid_t pid = TRY(spawn_words(words, writing.get(), errors, Standing::ours));
    writing = Fd();
    const auto limit = Clock::now() + patience;
    Ended ended;
    bool late = false;
    for (std::array<char, 4096> part{};;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
        pollfd one{reading.get(), POLLIN, 0};
        late = left.count() <= 0 || ::poll(&one, 1, static_cast<int>(left.count())) == 0;
        if (late) break;
        const ssize_t got = ::read(reading.get(), part.data(), part.size());
        if (got <= 0) break;
        ended.out.append(part.data(), static_cast<std::size_t>(got));
    }
    if (late) ::kill(pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (late)
        return fail_code(ExitCode::timed_out, "{} has not answered for {} s", words.front(),
                         patience.count());
    ended.code = exit_code_of(status);
    return ended;
}

Result<std::string> ask_command(const Words& words, std::chrono::seconds patience) {
    auto ended = TRY(run_command(words, patience));
    if (ended.code != 0)
        return fail("{} {} ended with {}", words[0], words.size() > 1 ? words[1] : "", ended.code);
    return std::move(ended.out);
}

Result<pid_t> start_command(const Words& words, Standing standing) {
    return spawn_words(words, -1, Errors::shown, standing);
}

int exit_code_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace cairn::job
