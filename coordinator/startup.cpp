#include "coordinator/startup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "coordinator/json.h"
#include "coordinator/name_lock.h"
#include "coordinator/other_numbers.h"

namespace cairn::coordinator {

using namespace std::chrono_literals;

namespace {

constexpr off_t longest_log = 1 << 20;

// Asks who is at the socket, "" for its pid: it is asked, for a stopped coordinator's socket takes
// connections too.
std::optional<Running> who_answers(const Session& session) {
    const Fd fd(connect_session(session));
    if (!fd) return std::nullopt;
    const timeval limit{2, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const std::string question = R"({"verb":"status"})";
    if (::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
    std::string answer(65536, '\0');
    const ssize_t n = ::recv(fd.get(), answer.data(), answer.size(), 0);
    if (n <= 0) return std::nullopt;
    const Json status = Json::parse(answer.data(), answer.data() + n, nullptr, false);
    if (!status.is_object()) return std::nullopt;
    return Running{static_cast<int>(get_number(status, "pid"))};
}

bool has_name(const Fd& file, const std::string& path) {
    struct stat held {
    }, named{};
    return ::fstat(file.get(), &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

Result<Lock> lock_session(const Session& session) {
    Lock lock;
    pid_t holder = 0;
    const auto until = std::chrono::steady_clock::now() + 10s;
    for (;;) {
        // Anew each time: who holds the name may just be making the folder again.
        lock.held.reset(::open(session.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!lock.held && errno == ENOENT) {
            // Another session's coordinator has just removed it, as one that is over (ended_sessions.h).
            if (auto made = make_session(session.name); !made) return fail("{}", made.error());
            continue;
        }
        if (!lock.held) return fail_errno("{}", session.lock());
        // A client that asks whether somebody starts holds it shared for an instant.
        if (::flock(lock.held.get(), LOCK_EX | LOCK_NB) == 0) {
            if (!has_name(lock.held, session.lock())) continue;
            auto name = TRY(take_name(session));
            if (name.other == 0) {
                lock.name = std::move(name.held);
                return lock;
            }
            // Its folder was removed. It has been told, and wants the lock.
            if (name.other > 0) holder = name.other;
            lock.held.reset();
        } else if (errno != EWOULDBLOCK && errno != EINTR) {
            return fail_errno("{}: flock", session.lock());
        }
        lock.other = who_answers(session);
        if (lock.other) {
            lock.held.reset();
            return lock;
        }
        if (std::chrono::steady_clock::now() > until)
            return fail_code(
                ExitCode::timed_out,
                "session {} has a coordinator that doesn't answer for 10 s (its lock {} is held; "
                "its pid {}); "
                "end it, or take another --session",
                session.name, session.lock(),
                holder > 0 ? fmt::format("is {}", holder) : "may be in " + session.pid_file());
        std::this_thread::sleep_for(20ms);
    }
}

Result<Daemon> Daemon::become(const Session& session, const std::set<KernelId>& avoid) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    Fd in(ends[0]), out(ends[1]);
    const pid_t child = fork_elsewhere(avoid);
    if (child < 0) return fail_errno("fork");
    if (child > 0) {
        out.reset();
        char byte = 0;
        ssize_t n = 0;
        while ((n = ::read(in.get(), &byte, 1)) < 0 && errno == EINTR) {
        }
        if (n == 1) ::_exit(0);
        int status = 0;
        while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    ::setsid();
    if (::chdir("/") != 0) return fail_errno("chdir /");
    struct stat info {};
    if (::stat(session.log().c_str(), &info) == 0 && info.st_size > longest_log)
        ::rename(session.log().c_str(), (session.log() + ".old").c_str());
    const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Fd log(::open(session.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!null || !log) return fail_errno("{}", session.log());
    ::dup2(null.get(), STDIN_FILENO);
    ::dup2(log.get(), STDOUT_FILENO);
    // stderr stays until ready(): what goes wrong before is said to whoever started us.
    return Daemon(std::move(out));
}

void reopen_log(const Session& session) {
    struct stat info {};
    if (::fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 0) return;
    const Fd log(::open(session.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!log) return;
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
}

void Daemon::ready() {
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    const char byte = 1;
    [[maybe_unused]] const ssize_t told = ::write(report_.get(), &byte, 1);
    report_.reset();
}

}  // namespace cairn::coordinator
