#include "coordinator/look.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/layout.h"
#include "common/own_process.h"
#include "coordinator/process_handle.h"

namespace cairn::coordinator {

namespace asio = boost::asio;

// Lives as long as something of the program is waited for: its output, its end, or the end of patience.
struct Look::Run : std::enable_shared_from_this<Look::Run> {
    Run(asio::io_context& io, int pipe, int pidfd, pid_t its_pid, Line its_line)
        : output(io, pipe), process(io, pidfd), timer(io), pid(its_pid), line(std::move(its_line)) {}
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run() {
        if (reaped) return;
        ::kill(pid, SIGKILL);
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    void read() {
        output.async_read_some(
            asio::buffer(buffer),
            [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
                self->text.append(self->buffer.data(), size);
                for (std::size_t end = 0; (end = self->text.find('\n')) != std::string::npos;
                     self->text.erase(0, end + 1))
                    self->line(self->text.substr(0, end));
                if (!error) self->read();
            });
    }
    // It has said all before it ends.
    void wait() {
        process.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](const boost::system::error_code& error) {
                               self->timer.cancel();
                               if (error) return;
                               while (::waitpid(self->pid, nullptr, 0) < 0 && errno == EINTR) {
                               }
                               self->reaped = true;
                           });
    }
    void limit(std::chrono::seconds patience) {
        timer.expires_after(patience);
        timer.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
            if (error) return;
            ::kill(self->pid, SIGKILL);
            self->line("it took too long to look at all");
        });
    }

    asio::posix::stream_descriptor output, process;
    asio::steady_timer timer;
    pid_t pid;
    Line line;
    std::array<char, 4096> buffer{};
    std::string text;
    bool reaped = false;
};

void Look::begin(const Line& line) {
    constexpr std::chrono::seconds patience{60};
    if (!run_.expired()) return line("the last look isn't over yet");
    const std::string program = own_program("cairn-stacks");
    std::array<int, 2> ends{};
    if (program.empty() || ::pipe2(ends.data(), O_CLOEXEC) != 0) return line("cairn-stacks can't be started");
    Fd reading(ends[0]);
    const Fd writing(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
        ::posix_spawn_file_actions_adddup2(&actions, writing.get(), fd);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    // A group of its own: Ctrl-C in the console is not meant for it.
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes,
        static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
    std::vector<std::string> words{program, "--waits", "--session", session_}, kept = own_environment();
    std::vector<char*> argv, environment;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : kept) environment.push_back(variable.data());
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    pid_t pid = -1;
    const int problem =
        ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (problem != 0) return line(fmt::format("{}: {}", program, std::strerror(problem)));
    Fd pidfd = open_pidfd(pid);
    if (!pidfd) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        return line("no descriptor is left to follow cairn-stacks");
    }
    auto run = std::make_shared<Run>(io_, reading.release(), pidfd.release(), pid, line);
    run_ = run;
    run->read();
    run->wait();
    run->limit(patience);
}

void Look::end() {
    const auto run = run_.lock();
    if (!run) return;
    boost::system::error_code ignored;
    run->output.close(ignored);
    run->process.close(ignored);
    run->timer.cancel();
}

}  // namespace cairn::coordinator
