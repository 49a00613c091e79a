// One client of the coordinator's socket. Whatever it does or fails to do, nobody else waits for it.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "common/fd.h"
#include "coordinator/json.h"

namespace cairn::coordinator {

struct PeerLimits {
    std::size_t message = 256 << 10;   // bytes, received
    std::size_t queue_messages = 512;  // waiting to be sent
    std::size_t queue_bytes = 4 << 20;
    int bad_messages = 8;
    std::chrono::milliseconds idle{30'000}, write{20'000};
};

class Peer : public std::enable_shared_from_this<Peer> {
  public:
    using Id = std::uint64_t;
    struct Handler {
        std::function<void(const std::shared_ptr<Peer>&, const Json&)> request;
        std::function<void(Peer&)> closed;  // called once
    };

    Peer(boost::asio::io_context& io, Fd socket, Id id, pid_t pid, const Handler& handler,
         const PeerLimits& limits);

    void start();
    void close();

    // Droppable events (progress) are left out when the client is slow; for any other the queue's limit ends
    // the connection.
    void send(const Json& event, bool droppable = false);
    // Sends what is queued, then closes.
    void close_when_sent();
    // Says no, and closes when the client has said what it wanted (or nothing for 2 s): a connection that is
    // closed at once would give the client an error for its request instead of the reason.
    void refuse(const Json& reason);

    [[nodiscard]] Id id() const { return id_; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] bool is_open() const { return open_; }
    // Nothing of this client is under way. Since when it has said nothing.
    [[nodiscard]] bool is_idle() const { return open_ && !busy && !subscribed && !closing_ && !refused_; }
    [[nodiscard]] std::chrono::steady_clock::time_point heard() const { return heard_; }

    // Something of this client is under way: silence is no reason to disconnect it.
    bool busy = false;
    bool subscribed = false;

  private:
    void read();
    void received(const char* data, std::size_t size);
    void bad_message(const std::string& reason);
    void write();
    void arm_idle();

    boost::asio::posix::stream_descriptor socket_;
    boost::asio::steady_timer idle_timer_, write_timer_;
    Id id_;
    pid_t pid_;
    const Handler& handler_;
    const PeerLimits& limits_;
    std::deque<std::string> queue_;
    std::size_t queued_bytes_ = 0;
    std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
    int bad_ = 0;
    bool open_ = true, writing_ = false, closing_ = false, refused_ = false;
};

}  // namespace cairn::coordinator
