// The session's socket: accepts clients of the right user.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "common/error.h"
#include "common/session.h"
#include "coordinator/acceptor.h"
#include "coordinator/peer.h"

namespace cairn::coordinator {

class Server {
  public:
    Server(boost::asio::io_context& io, Peer::Handler handler, PeerLimits limits = {});

    // Only who holds the session's lock may call this: a socket that is there is a dead coordinator's and is
    // replaced.
    [[nodiscard]] Result<> listen(const Session& session);
    void stop();

    // To every client that has subscribed.
    void broadcast(const Json& event, bool droppable);
    [[nodiscard]] std::shared_ptr<Peer> find(Peer::Id id) const;
    // Has a client that is connected said something since then, or come?
    [[nodiscard]] bool heard_since(std::chrono::steady_clock::time_point since) const;

  private:
    void accepted(Fd socket);
    [[nodiscard]] bool make_room();

    static constexpr std::size_t most_peers = 128;

    boost::asio::io_context& io_;
    Peer::Handler outer_, handler_;
    PeerLimits limits_;
    Acceptor acceptor_;
    std::map<Peer::Id, std::shared_ptr<Peer>> peers_;
    Peer::Id next_ = 1;
};

}  // namespace cairn::coordinator
