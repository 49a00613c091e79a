#include "coordinator/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cstdlib>

#include "common/error.h"
#include "coordinator/network.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

LinkLimits link_limits() {
    LinkLimits limits;
    if (const char* set = std::getenv("CAIRN_HOST_TIMEOUT"); set != nullptr)
        if (const double seconds = std::strtod(set, nullptr); seconds >= 0.1 && seconds <= 3600)
            limits.silence = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
    return limits;
}

Link::Link(asio::io_context& io, Fd socket, Channel::Role role, const Key& key, LinkLimits limits)
    : socket_(io, socket.release()), timer_(io), channel_(role, key), limits_(limits) {
    const int on = 1;
    ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    socket_.native_non_blocking(true);
}

void Link::start(Handler handler) {
    handler_ = std::move(handler);
    begun_ = heard_ = Clock::now();
    outgoing_ += std::exchange(channel_.output, {});
    tick();
    // The first that can be said of a connection under way is that it can be written to.
    socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                       [self = shared_from_this()](const boost::system::error_code& error) {
                           if (error || !self->open_) return;
                           int problem = 0;
                           socklen_t size = sizeof problem;
                           ::getsockopt(self->socket_.native_handle(), SOL_SOCKET, SO_ERROR, &problem, &size);
                           if (problem != 0) return self->end(std::strerror(problem));
                           self->peer_ = peer_words(self->socket_.native_handle());
                           self->write();
                           if (self->open_) self->read();
                       });
}

std::string Link::own_address() const {
    return own_words(const_cast<asio::posix::stream_descriptor&>(socket_).native_handle());
}

void Link::tick() {
    timer_.expires_after(std::min<std::chrono::milliseconds>(1s, limits_.silence / 4));
    timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (error || !self || !self->open_) return;
        const auto now = Clock::now();
        if (!self->channel_.proved() && now - self->begun_ > self->limits_.greeting)
            return self->end("it doesn't answer");
        if (now - self->heard_ > self->limits_.silence) {
            return self->end(fmt::format("nothing was heard of it for {} s",
                                         std::chrono::duration<double>(self->limits_.silence).count()));
        }
        if (self->channel_.proved()) self->send({{"type", "ping"}});
        self->tick();
    });
}

void Link::read() {
    socket_.async_wait(
        asio::posix::stream_descriptor::wait_read,
        [self = shared_from_this()](const boost::system::error_code& error) {
            if (error || !self->open_) return;
            // One read each turn of the loop: a flood from one host leaves the others their turns. Before the
            // proof only a greeting's worth is taken.
            static std::vector<char> buffer(256 << 10);
            const std::size_t most = self->channel_.proved() ? buffer.size() : Channel::longest_greeting;
            const ssize_t n = ::recv(self->socket_.native_handle(), buffer.data(), most, MSG_DONTWAIT);
            if (n < 0 && (errno == EAGAIN || errno == EINTR)) return self->read();
            if (n < 0) return self->lost(std::strerror(errno));
            if (n == 0) return self->lost("it has closed the connection");
            self->heard_ = Clock::now();
            const Result<> fed = self->channel_.feed({buffer.data(), static_cast<std::size_t>(n)});
            self->outgoing_ += std::exchange(self->channel_.output, {});
            if (!self->writing_) self->write();
            if (!fed) return self->end(fed.error().what);
            if (!self->open_) return;
            if (self->channel_.proved() && !std::exchange(self->told_ready_, true)) self->handler_.ready();
            while (self->open_ && !self->channel_.messages.empty()) {
                const std::string text = std::move(self->channel_.messages.front());
                self->channel_.messages.pop_front();
                const Json message = parse_object(text);
                if (!message.is_object())
                    return self->end("it sent something that is no JSON object, or nested too deeply");
                if (get_string(message, "type") == "ping") continue;
                try {
                    self->handler_.message(message);
                } catch (const Json::exception& problem) {
                    return self->end(
                        fmt::format("it sent something that can't be understood: {}", problem.what()));
                }
            }
            if (self->open_) self->read();
        });
}

void Link::send(const Json& message) {
    if (!ready()) return;
    const Result<> sent = channel_.send(text_of(message));
    outgoing_ += std::exchange(channel_.output, {});
    const bool too_much = outgoing_.size() - written_ > limits_.queue_bytes;
    if (!sent || too_much) {
        // Not from inside: whoever sends may hold an iterator over the links.
        const std::string why = sent ? "it doesn't take what it is sent" : sent.error().what;
        asio::post(socket_.get_executor(), [self = shared_from_this(), why] { self->end(why); });
        return;
    }
    if (!writing_) write();
}

void Link::write() {
    while (written_ < outgoing_.size()) {
        const ssize_t n = ::send(socket_.native_handle(), outgoing_.data() + written_,
                                 outgoing_.size() - written_, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            writing_ = true;
            socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                               [self = shared_from_this()](const boost::system::error_code& error) {
                                   if (error || !self->open_) return;
                                   self->writing_ = false;
                                   self->write();
                               });
            if (written_ > (std::size_t{1} << 20)) {
                outgoing_.erase(0, written_);
                written_ = 0;
            }
            return;
        }
        if (n < 0) {
            const std::string why = std::strerror(errno);
            asio::post(socket_.get_executor(), [self = shared_from_this(), why] { self->lost(why); });
            return;
        }
        written_ += static_cast<std::size_t>(n);
    }
    outgoing_.clear();
    written_ = 0;
}

void Link::close() {
    if (!open_) return;
    open_ = false;
    timer_.cancel();
    boost::system::error_code ignored;
    socket_.close(ignored);
}

void Link::drop() {
    if (!open_) return;
    const linger at_once{1, 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
}

// A root that doesn't like our proof says nothing, it closes: FIN or RST, as it happens.
void Link::lost(const std::string& why) {
    if (!open_) return;
    turned_away_ = channel_.greeted();
    end(turned_away_ ? "it has another key" : why);
}

void Link::end(const std::string& why) {
    if (!open_) return;
    // It must not arrive when the network is back, from an end that has long told its clients that it failed.
    drop();
    const auto ended = std::exchange(handler_, {}).ended;
    if (ended) ended(why);
}

}  // namespace cairn::coordinator
