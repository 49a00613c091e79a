// Takes the connections of one listening socket, whatever is short meanwhile.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "common/fd.h"

namespace cairn::coordinator {

class Acceptor {
  public:
    // `accepted` gets each connection: not blocking, closed on exec. It may call stop().
    Acceptor(boost::asio::io_context& io, std::function<void(Fd)> accepted)
        : io_(io), accepted_(std::move(accepted)), pause_(io) {}

    void start(Fd listener);  // not blocking
    void stop();

  private:
    void wait();

    boost::asio::io_context& io_;
    std::function<void(Fd)> accepted_;
    std::unique_ptr<boost::asio::posix::stream_descriptor> listener_;
    boost::asio::steady_timer pause_;
};

}  // namespace cairn::coordinator
