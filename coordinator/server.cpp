#include "coordinator/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <vector>

namespace cairn::coordinator {

namespace asio = boost::asio;

Server::Server(asio::io_context& io, Peer::Handler handler, PeerLimits limits)
    : io_(io),
      outer_(std::move(handler)),
      limits_(limits),
      acceptor_(io, [this](Fd socket) { accepted(std::move(socket)); }) {
    handler_.request = outer_.request;
    handler_.closed = [this](Peer& peer) {
        outer_.closed(peer);
        // Destroyed later: the peer is still on the stack.
        asio::post(io_, [this, id = peer.id()] { peers_.erase(id); });
    };
}

Result<> Server::listen(const Session& session) {
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return fail_errno("socket");
    // sun_path is short; the folder may be deep.
    const Fd folder(::open(session.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return fail_errno("{}", session.directory);
    const std::string path = fmt::format("/proc/self/fd/{}/socket", folder.get());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    ::unlink(session.socket().c_str());
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return fail_errno("{}: bind", session.socket());
    if (::chmod(session.socket().c_str(), 0600) != 0) return fail_errno("{}: chmod", session.socket());
    if (::listen(fd.get(), 64) != 0) return fail_errno("{}: listen", session.socket());
    acceptor_.start(std::move(fd));
    return {};
}

void Server::stop() {
    acceptor_.stop();
    const auto peers = peers_;
    for (const auto& [id, peer] : peers) peer->close_when_sent();
}

bool Server::heard_since(std::chrono::steady_clock::time_point since) const {
    return std::ranges::any_of(
        peers_, [&](const auto& peer) { return peer.second->is_open() && peer.second->heard() > since; });
}

void Server::accepted(Fd socket) {
    ucred who{};
    socklen_t size = sizeof who;
    const bool known = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0;
    const char* problem = nullptr;
    if (!known || (who.uid != ::geteuid() && who.uid != 0))
        problem = "the session belongs to another user";
    else if (peers_.size() >= most_peers && !make_room())
        problem = "too many clients are connected; try again";
    if (peers_.size() >= 2 * most_peers) return;  // not even words for more
    // A list of many processes, or a restart of many, is one large message.
    const int buffer = 1 << 20;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    auto peer = std::make_shared<Peer>(io_, std::move(socket), next_++, who.pid, handler_, limits_);
    peers_[peer->id()] = peer;
    if (problem == nullptr) return peer->start();
    peer->refuse({{"event", "failed"}, {"code", static_cast<int>(ExitCode::refused)}, {"reason", problem}});
}

// A client that was forgotten open, or a thousand, keeps nobody out: who has been silent for longest gives
// his place.
bool Server::make_room() {
    std::shared_ptr<Peer> last;
    for (const auto& [id, peer] : peers_)
        if (peer->is_idle() && (!last || peer->heard() < last->heard())) last = peer;
    if (last) last->close();
    return last != nullptr;
}

void Server::broadcast(const Json& event, bool droppable) {
    for (const auto& [id, peer] : peers_)
        if (peer->subscribed) peer->send(event, droppable);
}

std::shared_ptr<Peer> Server::find(Peer::Id id) const {
    const auto found = peers_.find(id);
    return found == peers_.end() ? nullptr : found->second;
}

}  // namespace cairn::coordinator
