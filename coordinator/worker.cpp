#include "coordinator/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/fd.h"
#include "common/human.h"
#include "common/message_descriptors.h"
#include "common/own_process.h"
#include "common/proc.h"
#include "coordinator/tool_process.h"

namespace cairn::coordinator {

namespace asio = boost::asio;

namespace {

// Its limits are ours, so the likely cause is known.
std::string death(int signal) {
    const std::string cause = cause_of_death(signal);
    return fmt::format("killed by {}{}", name_of_signal(signal), cause.empty() ? "" : ": " + cause);
}

}  // namespace

struct Worker::Words : std::enable_shared_from_this<Worker::Words> {
    explicit Words(asio::io_context& io, int fd) : pipe(io, fd) {}
    asio::posix::stream_descriptor pipe;
    std::array<char, 4096> buffer{};
    std::string text;  // the last 4 KiB

    // Read all the time: a worker whose pipe is full would stand still, and the group with it.
    void listen() {
        pipe.async_read_some(
            asio::buffer(buffer),
            [self = shared_from_this()](const boost::system::error_code& error, std::size_t n) {
                if (error) return;
                self->text.append(self->buffer.data(), n);
                if (self->text.size() > 4096) self->text.erase(0, self->text.size() - 4096);
                self->listen();
            });
    }
};

std::string capture_program() {
    if (const char* set = std::getenv("CAIRN_CAPTURE"); set != nullptr && *set != '\0') return set;
    char self[4096];
    const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
    std::string path(self, n > 0 ? static_cast<std::size_t>(n) : 0);
    return path.substr(0, path.rfind('/') + 1) + "cairn-capture";
}

Worker::Worker(asio::io_context& io, int socket, int pidfd, pid_t pid, std::shared_ptr<Words> words)
    : socket_(io, socket), process_(io, pidfd), timer_(io), pid_(pid), words_(std::move(words)) {}

Worker::~Worker() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Result<std::unique_ptr<Worker>> Worker::start(asio::io_context& io, const std::string& program,
                                              const Json& request, std::vector<Fd> descriptors) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno("socketpair");
    Fd ours(pair[0]), theirs(pair[1]);
    // A manifest of thousands of processes is one message, and it is sent without waiting.
    const int size = 8 << 20;
    for (const Fd* end : {&ours, &theirs})
        if (::setsockopt(end->get(), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
            ::setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    const std::string text = text_of(request);
    std::vector<int> numbers;
    for (const Fd& each : descriptors) numbers.push_back(each.get());
    if (send_with(ours.get(), text, numbers, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return fail_errno("the request of {} bytes to {} can't be sent", text.size(), program);
    descriptors.clear();  // before anybody takes them out at the other end
    if (::fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno("fcntl");
    int words[2];
    if (::pipe2(words, O_CLOEXEC) != 0) return fail_errno("pipe");
    Fd words_in(words[0]), words_out(words[1]);

    auto tool = TRY(start_tool({program}, words_out, theirs));
    auto said = std::make_shared<Words>(io, words_in.release());
    said->listen();
    return std::unique_ptr<Worker>(
        new Worker(io, ours.release(), tool.pidfd.release(), tool.pid, std::move(said)));
}

bool Worker::say(const Json& answer) {
    const std::string text = text_of(answer);
    return ::send(socket_.native_handle(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(text.size());
}

bool Worker::is_stopped() const {
    const auto stat = proc::stat(pid_);
    return stat && (stat->state == 'T' || stat->state == 't');
}

std::string Worker::describe() const {
    return fmt::format("pid {}{}", pid_, is_stopped() ? ", which somebody has stopped" : "");
}

void Worker::interrupt() {
    interrupted_ = true;
    boost::system::error_code ignored;
    socket_.cancel(ignored);
}

asio::awaitable<Worker::Heard> Worker::listen(Clock::time_point deadline) {
    // Grown to what comes: manifests are as large as the group.
    std::vector<char> buffer(64 << 10);
    for (;;) {
        if (interrupted_) co_return Heard::interrupted;
        const ssize_t size =
            ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_PEEK | MSG_TRUNC);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) co_return Heard::end;
        if (size > 0) {
            if (static_cast<std::size_t>(size) > buffer.size()) buffer.resize(static_cast<std::size_t>(size));
            const ssize_t n = receive_with(socket_.native_handle(), buffer, descriptors, 0);
            if (n <= 0) co_return Heard::end;
            message = Json::parse(buffer.data(), buffer.data() + n, nullptr, false);
            if (message.is_object()) co_return Heard::message;
            continue;
        }
        if (Clock::now() >= deadline) co_return Heard::late;
        timer_.expires_at(deadline);
        // It may have expired already, and be called when the worker has gone: nothing takes that back.
        timer_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& stopped) {
            boost::system::error_code ignored;
            if (!stopped && !alive.expired()) socket_.cancel(ignored);
        });
        boost::system::error_code error;
        co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                                    asio::redirect_error(asio::use_awaitable, error));
        timer_.cancel();
    }
}

asio::awaitable<std::string> Worker::finish(std::chrono::milliseconds grace) {
    boost::system::error_code ignored;
    socket_.close(ignored);
    // A stopped one can't take notice.
    const auto until = Clock::now() + (is_stopped() ? std::chrono::milliseconds(0) : grace);
    bool killed = false;
    int status = 0;
    for (;;) {
        const pid_t done = ::waitpid(pid_, &status, WNOHANG);
        if (done == pid_ || (done < 0 && errno != EINTR)) break;
        if (!killed && Clock::now() >= until) {
            ::kill(pid_, SIGKILL);
            killed = true;
        }
        timer_.expires_at(killed ? Clock::now() + std::chrono::milliseconds(100) : until);
        timer_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& stopped) {
            boost::system::error_code none;
            if (!stopped && !alive.expired()) process_.cancel(none);
        });
        boost::system::error_code error;
        co_await process_.async_wait(asio::posix::stream_descriptor::wait_read,
                                     asio::redirect_error(asio::use_awaitable, error));
        timer_.cancel();
    }
    reaped_ = true;
    // What it said last may still be in the pipe.
    char rest[4096];
    ::fcntl(words_->pipe.native_handle(), F_SETFL, O_NONBLOCK);
    for (ssize_t n = 0; (n = ::read(words_->pipe.native_handle(), rest, sizeof rest)) > 0;)
        words_->text.append(rest, static_cast<std::size_t>(n));
    words_->pipe.close(ignored);
    std::string words = words_->text;
    while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
    if (words.size() > 1000) words.erase(0, words.size() - 1000);

    std::string text;
    if (killed)
        text = "it did not end and was killed";
    else if (WIFSIGNALED(status))
        text = death(WTERMSIG(status));
    else if (WEXITSTATUS(status) > 1)
        text = fmt::format("exit code {}", WEXITSTATUS(status));
    if (!words.empty()) text += (text.empty() ? "" : ": ") + printable(words);
    co_return text;
}

}  // namespace cairn::coordinator
