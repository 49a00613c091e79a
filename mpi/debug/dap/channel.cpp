#include "mpi/debug/dap/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>

#include "common/json_text.h"
#include "mpi/debug/history.h"

namespace cairn::mpi::debug::dap {
namespace {

constexpr std::size_t longest_head = 4096, longest_body = std::size_t{64} << 20;

bool is_pressing(const nlohmann::json& request) {
    const std::string command = request.value("command", "");
    return command == "pause" || command == "disconnect" || command == "terminate";
}

}  // namespace

Channel::Channel(int in, int out)
    : in_(in), out_(out), owner_(::pthread_self()), over_(::eventfd(0, EFD_CLOEXEC)) {
    // Signals are the owner's: a rank's end, an interrupt.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    reader_ = std::thread([this] { read_all(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Channel::~Channel() {
    const std::uint64_t one = 1;
    (void)!::write(over_.get(), &one, sizeof one);
    reader_.join();
}

// With the mutex.
void Channel::interrupt_owner() {
    interrupted = 1;
    ::pthread_kill(owner_, SIGINT);
}

// The messages that are whole in text_. False: what came is none.
bool Channel::take_messages() {
    for (;;) {
        const std::size_t end_of_head = text_.find("\r\n\r\n");
        if (end_of_head == std::string::npos) return text_.size() <= longest_head;
        const std::string name = "Content-Length:";
        const std::size_t at = text_.find(name);
        if (at > end_of_head) return false;
        const std::size_t size = std::strtoull(text_.c_str() + at + name.size(), nullptr, 10);
        if (size == 0 || size > longest_body) return false;
        const std::size_t begin = end_of_head + 4;
        if (text_.size() - begin < size) return true;
        auto message = nlohmann::json::parse(text_.substr(begin, size), nullptr, false);
        text_.erase(0, begin + size);
        if (!message.is_object() || !message["command"].is_string() || !message["seq"].is_number_integer())
            return false;
        const std::scoped_lock lock(mutex_);
        if (is_pressing(message)) {
            ++pressing_;
            interrupt_owner();
        }
        requests_.push_back(std::move(message));
        came_.notify_one();
    }
}

void Channel::read_all() {
    constexpr int again_ms = 50;
    for (;;) {
        pollfd waiting[2] = {{in_, POLLIN, 0}, {over_.get(), POLLIN, 0}};
        const int ready = ::poll(waiting, 2, again_ms);
        if (waiting[1].revents != 0) return;
        if (ready == 0) {
            // A signal that came just before the owner began to wait has woken nobody.
            const std::scoped_lock lock(mutex_);
            if (pressing_ > 0) interrupt_owner();
            continue;
        }
        char bytes[65536];
        const ssize_t size = ready < 0 ? -1 : ::read(in_, bytes, sizeof bytes);
        if (size < 0 && errno == EINTR) continue;
        if (size > 0) {
            text_.append(bytes, static_cast<std::size_t>(size));
            if (take_messages()) continue;
        }
        const std::scoped_lock lock(mutex_);
        if (size > 0)
            problem_ = "what came on the standard input is no message of the Debug Adapter Protocol";
        ended_ = true;
        ++pressing_;
        interrupt_owner();
        came_.notify_one();
        in_ = -1;  // which poll(2) passes over
    }
}

Result<std::optional<nlohmann::json>> Channel::next() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return ended_ || !requests_.empty(); });
    if (requests_.empty()) {
        pressing_ = 0;
        if (!problem_.empty()) return fail_code(ExitCode::usage, "{}", problem_);
        return std::nullopt;
    }
    auto request = std::move(requests_.front());
    requests_.pop_front();
    if (is_pressing(request)) --pressing_;
    // What is asked for before a pause is given up, too.
    interrupted = pressing_ > 0 ? 1 : 0;
    return std::optional(std::move(request));
}

void Channel::send(nlohmann::json message) {
    message["seq"] = ++sequence_;
    const std::string body = json_text(message);
    const std::string text = fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
    for (std::size_t sent = 0; sent < text.size();) {
        const ssize_t size = ::write(out_, text.data() + sent, text.size() - sent);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return;  // the end of its input comes as well
        sent += static_cast<std::size_t>(size);
    }
}

void Channel::answer(const nlohmann::json& request, nlohmann::json body) {
    send({{"type", "response"},
          {"request_seq", request["seq"]},
          {"command", request["command"]},
          {"success", true},
          {"body", std::move(body)}});
}

void Channel::refuse(const nlohmann::json& request, const std::string& why) {
    send(
        {{"type", "response"},
         {"request_seq", request["seq"]},
         {"command", request["command"]},
         {"success", false},
         {"message", why},
         {"body",
          {{"error", {{"id", 1}, {"format", "{why}"}, {"variables", {{"why", why}}}, {"showUser", true}}}}}});
}

void Channel::event(const char* name, nlohmann::json body) {
    send({{"type", "event"}, {"event", name}, {"body", std::move(body)}});
}

void Channel::print(const char* category, const std::string& text) {
    event("output", {{"category", category}, {"output", text}});
}

}  // namespace cairn::mpi::debug::dap
