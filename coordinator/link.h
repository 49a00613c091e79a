// A connection to another host's coordinator: TCP, the channel on it, deadlines. Whatever the other end does
// or fails to do, nobody else waits for it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/channel/channel.h"
#include "common/fd.h"
#include "coordinator/json.h"

namespace cairn::coordinator {

struct LinkLimits {
    std::chrono::milliseconds greeting{5'000};  // until both have proved themselves
    std::chrono::milliseconds silence{10'000};  // nothing was heard; see link_limits()
    std::size_t queue_bytes = 64 << 20;         // waiting to be sent
};
// With $CAIRN_HOST_TIMEOUT (seconds) as silence, if it is set.
[[nodiscard]] LinkLimits link_limits();

class Link : public std::enable_shared_from_this<Link> {
  public:
    struct Handler {
        std::function<void()> ready;                        // both have proved themselves
        std::function<void(const Json&)> message;           // an object
        std::function<void(const std::string& why)> ended;  // called once, never from within send()
    };

    // `socket`: connected, or connecting without waiting.
    Link(boost::asio::io_context& io, Fd socket, Channel::Role role, const Key& key, LinkLimits limits);

    void start(Handler handler);
    void send(const Json& message);
    // Ends it; `ended` is not called.
    void close();
    // The same at once: what was said and not heard is void, and nothing of it is left in the kernel.
    void drop();
    [[nodiscard]] bool ready() const { return open_ && channel_.proved(); }
    // The other end greeted us and closed when it had seen our proof. (One that closes at once may have too
    // many strangers to listen to another.)
    [[nodiscard]] bool was_turned_away() const { return turned_away_; }
    [[nodiscard]] const std::string& peer() const { return peer_; }  // address in words
    [[nodiscard]] std::string own_address() const;                   // ours on this connection, without port

  private:
    void read();
    void write();
    void tick();
    void end(const std::string& why);
    void lost(const std::string& why);

    boost::asio::posix::stream_descriptor socket_;
    boost::asio::steady_timer timer_;
    Channel channel_;
    LinkLimits limits_;
    Handler handler_;
    std::string peer_, outgoing_;
    std::size_t written_ = 0;
    std::chrono::steady_clock::time_point begun_, heard_;
    bool open_ = true, writing_ = false, told_ready_ = false, turned_away_ = false;
};

}  // namespace cairn::coordinator
