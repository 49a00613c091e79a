#include "coordinator/look.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <utility>

#include "common/fd.h"
#include "common/layout.h"
#include "coordinator/tool_process.h"

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
    auto tool = start_tool({program, "--waits", "--session", session_}, writing);
    if (!tool) return line(tool.error().what);
    auto run = std::make_shared<Run>(io_, reading.release(), tool->pidfd.release(), tool->pid, line);
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
