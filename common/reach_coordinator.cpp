#include "common/reach_coordinator.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/layout.h"
#include "common/own_process.h"

namespace cairn {
namespace {

constexpr int deadline_ms = 10'000;

// What the starter learns of the coordinator's process, through a pipe that exec closes.
struct Report {
    pid_t pid = 0;
    int exec_error = 0;
};

long now_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// In the process that becomes the coordinator: nothing of the launched program's stays, neither terminal,
// session, descriptors, ignored signals (nohup) nor the signal mask. Its limits hold for the exec already;
// the rest the coordinator puts right itself (stand_alone).
[[noreturn]] void run_coordinator(const char* program, char* const* argv, char* const* environment,
                                  const char* log, int report) {
    ::setsid();
    raise_limits();
    ::umask(077);
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDWR);
    const int out = ::open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out >= 0 ? out : null, STDOUT_FILENO);
    ::dup2(out >= 0 ? out : null, STDERR_FILENO);
    // The report's end is closed by the exec as everything else, which tells the starter that it went well.
    ::syscall(SYS_close_range, 3U, ~0U, 1U << 2);  // CLOSE_RANGE_CLOEXEC, Linux 5.11
    Report said{::getpid(), 0};
    if (::write(report, &said, sizeof said) != sizeof said) ::_exit(1);
    ::execve(program, argv, environment);
    said.exec_error = errno;
    if (::write(report, &said, sizeof said) != sizeof said) ::_exit(1);
    ::_exit(127);
}

// Starts the coordinator as nobody's child. "" or why it couldn't be started; a pidfd of it otherwise.
std::pair<Fd, std::string> start(const Session& session, const std::vector<std::string>& more) {
    const std::string program = own_program("cairn-coordinator");
    if (program.empty()) return {Fd(), "cairn-coordinator is not installed beside this cairn"};
    const std::string log = session.log();
    std::vector<std::string> words{"cairn-coordinator", "--session", session.name, "--daemon", "--auto"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> kept = own_environment();
    std::vector<char*> environment;
    for (std::string& variable : kept) environment.push_back(variable.data());
    environment.push_back(nullptr);

    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return {Fd(), std::string("pipe: ") + std::strerror(errno)};
    Fd in(ends[0]);
    Fd out(ends[1]);
    const pid_t middle = ::fork();
    if (middle < 0) return {Fd(), std::string("fork: ") + std::strerror(errno)};
    if (middle == 0) {
        const pid_t child = ::fork();
        if (child == 0) {
            // The starter may have closed descriptors 0 to 2: keep the pipe above what dup2 overwrites.
            const int report = ::fcntl(out.get(), F_DUPFD_CLOEXEC, 3);
            run_coordinator(program.c_str(), argv.data(), environment.data(), log.c_str(), report);
        }
        ::_exit(child < 0 ? 1 : 0);
    }
    out.reset();
    int status = 0;
    while (::waitpid(middle, &status, 0) < 0 && errno == EINTR) {
    }
    Report report;
    if (::read(in.get(), &report, sizeof report) != sizeof report)
        return {Fd(), "the coordinator couldn't be forked (a limit on processes or memory?)"};
    Fd process(static_cast<int>(::syscall(SYS_pidfd_open, report.pid, 0)));
    if (::read(in.get(), &report, sizeof report) == sizeof report)
        return {Fd(), program + ": " + std::strerror(report.exec_error)};
    return {std::move(process), std::string()};
}

// Is some coordinator between its lock and its socket?
bool somebody_starts(const Session& session) {
    const Fd lock(::open(session.lock().c_str(), O_RDONLY | O_CLOEXEC));
    if (!lock) return false;
    return ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// What was written into the log since it was `from` bytes long, its last 2 KiB.
std::string log_since(const Session& session, off_t from) {
    const Fd log(::open(session.log().c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!log || ::fstat(log.get(), &info) != 0) return {};
    if (info.st_size < from) from = 0;
    char text[2048];
    const off_t begin = std::max<off_t>(from, info.st_size - static_cast<off_t>(sizeof text));
    const ssize_t size = ::pread(log.get(), text, sizeof text, begin);
    if (size <= 0) return {};
    std::string said(text, static_cast<std::size_t>(size));
    while (!said.empty() && said.back() == '\n') said.pop_back();
    return said;
}

off_t log_size(const Session& session) {
    struct stat info {};
    return ::stat(session.log().c_str(), &info) == 0 ? info.st_size : 0;
}

std::string no_answer(const Session& session, const std::string& what, off_t log_from) {
    std::string text = "session " + session.name + ": " + what;
    if (const std::string said = log_since(session, log_from); !said.empty())
        text += "; its log " + session.log() + " says:\n" + said;
    else
        text += "; its log is " + session.log();
    return text;
}

bool nobody_there(int connected) {
    return connected == -ENOENT || connected == -ECONNREFUSED;
}

// Was this process killed, or is it on its way out? kill(2) returns when SIGKILL is pending; the victim's
// descriptors are closed only after its memory has been given back (do_exit, kernel/exit.c).
bool is_dying(pid_t pid) {
    constexpr unsigned long pf_exiting = 4;  // include/linux/sched.h
    char text[4096];
    const auto read_file = [&](const char* name) {
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
        const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
        const ssize_t size = file ? ::read(file.get(), text, sizeof text - 1) : 0;
        text[std::max<ssize_t>(size, 0)] = '\0';
        return size > 0;
    };
    char state = 0;
    unsigned long flags = 0;
    if (!read_file("stat")) return false;
    const char* behind_name = std::strrchr(text, ')');
    if (behind_name != nullptr &&
        std::sscanf(behind_name, ") %c %*d %*d %*d %*d %*d %lu", &state, &flags) == 2 &&
        (state == 'Z' || state == 'X' || (flags & pf_exiting) != 0))
        return true;
    if (!read_file("status")) return false;
    const char* pending = std::strstr(text, "\nShdPnd:");
    return pending != nullptr && (std::strtoull(pending + 8, nullptr, 16) >> (SIGKILL - 1) & 1) != 0;
}

// A container was ended and the next one begins, with the session's folder of the last: its coordinator is of
// another pid namespace, has no id here (cred_to_ucred, net/core/sock.c), and may be on its way out. One that
// lives says nothing before it is asked.
bool hangs_up(int connected) {
    constexpr int patience_ms = 300;
    pollfd end{connected, POLLRDHUP, 0};
    return ::poll(&end, 1, patience_ms) > 0;
}

// As connect_session(), but a coordinator that is dying is nobody: what is said to it gets no answer. Returns
// when it has gone, for until then it holds the lock that the next one needs.
int connect_living(const Session& session) {
    const int fd = connect_session(session);
    ucred who{};
    socklen_t size = sizeof who;
    if (fd < 0 || ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return fd;
    if (who.pid == 0 ? !hangs_up(fd) : !is_dying(who.pid)) return fd;
    ::close(fd);
    if (who.pid == 0) return -ECONNREFUSED;
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
    pollfd end{process.get(), POLLIN, 0};
    if (process) (void)::poll(&end, 1, deadline_ms);
    return -ECONNREFUSED;
}

// Whether it lives in another pid namespace than we do: one below ours, where it has another id beside the
// one that we know, or one in which it has none for us.
bool is_elsewhere(pid_t pid) {
    char path[64], text[4096];
    std::snprintf(path, sizeof path, "/proc/%d/status", pid);
    const Fd file(pid == 0 ? -1 : ::open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t size = file ? ::read(file.get(), text, sizeof text - 1) : 0;
    text[std::max<ssize_t>(size, 0)] = '\0';
    const char* ids = std::strstr(text, "\nNSpid:");
    int first = 0, second = 0;
    return pid == 0 || (ids != nullptr && std::sscanf(ids + 7, "%d\t%d\n", &first, &second) == 2);
}

// One that has served a computation in a pid namespace of its own (restart/own_ids.h), and outlives it there,
// could follow nobody from here: where it has no programs it is asked to make room. True: it has gone.
bool makes_room(int fd) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || !is_elsewhere(who.pid)) return false;
    const auto ask = [fd](const std::string& request) {
        std::string answer(65536, '\0');
        const timeval limit{2, 0};
        ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) return std::string();
        const ssize_t n = ::recv(fd, answer.data(), answer.size(), 0);
        answer.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
        return answer;
    };
    const std::string status = ask(R"({"verb":"status"})");
    const std::string none = R"("processes":0)";
    const std::size_t at = status.find(none);
    const std::size_t behind = at + none.size();
    if (at == std::string::npos || (behind < status.size() && status[behind] >= '0' && status[behind] <= '9'))
        return false;
    (void)ask(R"({"verb":"quit"})");
    pollfd end{fd, POLLRDHUP, 0};
    return ::poll(&end, 1, deadline_ms) > 0;
}

struct Reached {
    Connection connection;
    bool nobody = false;  // the one that was started has ended, and no other one answers
};

Reached start_and_reach(const Session& session, const std::vector<std::string>& more) {
    const off_t log_from = log_size(session);
    auto [process, problem] = start(session, more);
    if (!problem.empty()) return {{-1, "the coordinator can't be started: " + problem}};
    const long until = now_ms() + deadline_ms;
    int pause_ms = 1;
    bool gone = !process;
    for (;;) {
        pollfd end{process.get(), POLLIN, 0};
        // Once it has gone (another one was first, or it failed), time is all there is to wait for.
        if (::poll(&end, gone ? 0 : 1, pause_ms) > 0) gone = true;
        int fd = connect_living(session);
        if (fd >= 0) return {{fd, {}}};
        if (!nobody_there(fd)) return {{-1, connection_problem(session, fd)}};
        if (gone && !somebody_starts(session)) {
            // The one that was first may have begun to answer, or ended, between the two questions.
            fd = connect_living(session);
            if (fd >= 0) return {{fd, {}}};
            return {{-1, no_answer(session, "its coordinator ended before it answered", log_from)}, true};
        }
        if (now_ms() > until)
            return {{-1, no_answer(session, "its coordinator doesn't answer after 10 s", log_from)}};
        pause_ms = std::min(pause_ms * 2, 20);
    }
}

}  // namespace

int find_coordinator(const Session& session) {
    const long until = now_ms() + deadline_ms;
    int fd = connect_living(session);
    // Between the lock and the socket of one that begins there are some milliseconds.
    for (int pause_ms = 1; nobody_there(fd) && now_ms() < until; pause_ms = std::min(pause_ms * 2, 20)) {
        const bool awaited = somebody_starts(session);
        if (awaited) (void)::poll(nullptr, 0, pause_ms);
        fd = connect_living(session);
        if (!awaited) break;
    }
    return fd;
}

Connection reach_coordinator(const Session& session, const std::vector<std::string>& more) {
    int fd = connect_living(session);
    if (fd >= 0 && makes_room(fd)) {
        ::close(fd);
        fd = -ECONNREFUSED;
    } else if (fd >= 0) {
        return {fd, {}};
    }
    if (!nobody_there(fd)) return {-1, connection_problem(session, fd)};

    // Another one may have been first and have ended by now (killed, with its container, or left by its last
    // program): ours ended because of it, and there is nobody.
    constexpr int attempts = 3;
    Reached reached;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        reached = start_and_reach(session, more);
        if (!reached.nobody) break;
    }
    return std::move(reached.connection);
}

}  // namespace cairn
