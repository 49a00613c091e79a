#include "coordinator/peer.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <vector>

#include "common/error.h"

namespace cairn::coordinator {

namespace asio = boost::asio;

Peer::Peer(asio::io_context& io, Fd socket, Id id, pid_t pid, const Handler& handler,
           const PeerLimits& limits)
    : socket_(io, socket.release()),
      idle_timer_(io),
      write_timer_(io),
      id_(id),
      pid_(pid),
      handler_(handler),
      limits_(limits) {
    socket_.native_non_blocking(true);
}

void Peer::start() {
    arm_idle();
    read();
}

void Peer::close() {
    if (!open_) return;
    open_ = false;
    // What is unread when a Unix socket is closed makes the other end's reads fail before it has read our
    // last words.
    char byte = 0;
    for (int i = 0; i < 1000 && ::recv(socket_.native_handle(), &byte, 1, MSG_DONTWAIT) > 0; ++i) {
    }
    idle_timer_.cancel();
    write_timer_.cancel();
    boost::system::error_code ignored;
    socket_.close(ignored);
    queue_.clear();
    handler_.closed(*this);
}

void Peer::close_when_sent() {
    closing_ = true;
    if (!writing_) close();
}

void Peer::refuse(const Json& reason) {
    send(reason);
    refused_ = true;
    start();
}

void Peer::arm_idle() {
    idle_timer_.expires_after(refused_ ? std::chrono::milliseconds(2000) : limits_.idle);
    idle_timer_.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
        const auto peer = self.lock();
        if (error || !peer || !peer->open_) return;
        if (peer->busy || peer->subscribed)
            peer->arm_idle();
        else
            peer->close();
    });
}

void Peer::read() {
    socket_.async_wait(
        asio::posix::stream_descriptor::wait_read,
        [self = shared_from_this()](const boost::system::error_code& error) {
            if (error || !self->open_) return self->close();
            // The coordinator is one thread: one buffer serves all peers.
            static std::vector<char> buffer;
            buffer.resize(self->limits_.message);
            // A flooding client gets one message read each turn of the loop, like everybody else.
            const ssize_t n = ::recv(self->socket_.native_handle(), buffer.data(), buffer.size(), MSG_TRUNC);
            if (n < 0 && (errno == EAGAIN || errno == EINTR)) return self->read();
            // Zero bytes: the end. (An empty message looks the same and deserves no better.)
            if (n <= 0) return self->close();
            if (self->refused_) return self->close();
            const auto size = static_cast<std::size_t>(n);
            self->heard_ = std::chrono::steady_clock::now();
            self->arm_idle();
            if (size > buffer.size())
                self->bad_message(
                    fmt::format("a message of {} bytes is too large, {} are allowed", size, buffer.size()));
            else
                self->received(buffer.data(), size);
            if (self->open_ && !self->closing_) self->read();
        });
}

void Peer::received(const char* data, std::size_t size) {
    const Json request = parse_object({data, size});
    if (!request.is_object()) return bad_message("the message is no JSON object, or nested too deeply");
    const auto self = shared_from_this();
    try {
        handler_.request(self, request);
    } catch (const Json::exception& problem) {
        // A field of a type that nobody expected.
        bad_message(fmt::format("the request can't be understood: {}", problem.what()));
    }
}

void Peer::bad_message(const std::string& reason) {
    send({{"event", "failed"}, {"code", static_cast<int>(ExitCode::usage)}, {"reason", reason}});
    if (++bad_ >= limits_.bad_messages) close_when_sent();
}

void Peer::send(const Json& event, bool droppable) {
    if (!open_ || closing_) return;
    if (droppable && queue_.size() >= 16) return;
    std::string text = text_of(event);
    if (queue_.size() >= limits_.queue_messages || queued_bytes_ + text.size() > limits_.queue_bytes) {
        // Not from inside: whoever sends may hold an iterator over the peers.
        asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
        return;
    }
    queued_bytes_ += text.size();
    queue_.push_back(std::move(text));
    if (!writing_) write();
}

void Peer::write() {
    while (!queue_.empty()) {
        const std::string& text = queue_.front();
        const ssize_t n =
            ::send(socket_.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            writing_ = true;
            write_timer_.expires_after(limits_.write);
            write_timer_.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
                if (const auto peer = self.lock(); !error && peer) peer->close();
            });
            socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                               [self = shared_from_this()](const boost::system::error_code& error) {
                                   if (error || !self->open_) return self->close();
                                   self->write_timer_.cancel();
                                   self->writing_ = false;
                                   self->write();
                               });
            return;
        }
        if (n < 0) {
            // EMSGSIZE: larger than the socket's buffer; a short word is better than silence.
            if (errno == EMSGSIZE && text.size() > 4096) {
                queued_bytes_ -= text.size();
                queue_.pop_front();
                queue_.push_front(text_of({{"event", "failed"},
                                           {"code", static_cast<int>(ExitCode::failed)},
                                           {"reason", "the answer is too large for one message"}}));
                queued_bytes_ += queue_.front().size();
                continue;
            }
            asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
            return;
        }
        queued_bytes_ -= text.size();
        queue_.pop_front();
    }
    if (closing_) asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
}

}  // namespace cairn::coordinator
