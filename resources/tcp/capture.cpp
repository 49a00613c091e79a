// TCP sockets: listening, connected to each other, to nobody any more, to somebody outside; with what is on
// its way.
#include "resources/socket/capture.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include "common/socket_names.h"
#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"
#include "resources/namespace/capture_own.h"
#include "resources/socket/capture_calls.h"
#include "resources/tcp/capture_links.h"
#include "resources/tcp/capture_queue.h"

namespace cairn::capture {
namespace {

struct TcpSocketsFound {
    std::map<std::int64_t, std::vector<std::int64_t>> all;  // by network (Object::network)
};

constexpr int tcp_new_syn_received = 12;  // linux: include/net/tcp_states.h

std::string connection(const std::string& own, const std::string& peer) {
    return plain_address(own) + "/" + plain_address(peer);
}

// Without the port.
std::string host_part(const std::string& address) {
    const std::string plain = plain_address(address);
    return plain.substr(0, plain.size() - 2);
}

// Nobody has accepted it yet.
bool is_pending(int state) {
    return state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT || state == TCP_SYN_RECV ||
           state == tcp_new_syn_received;
}

// What the kernel does with the bytes of a connection on the program's behalf: "tls" (Linux 4.13), "smc",
// "mptcp"; empty: nothing.
std::string upper_layer(int fd) {
    char layer[16] = "";
    socklen_t length = sizeof layer;
    const bool some = ::getsockopt(fd, IPPROTO_TCP, TCP_ULP, layer, &length) == 0 && length > 0;
    return some ? std::string(layer, ::strnlen(layer, length)) : std::string();
}

struct Socket {
    schema::Object* object = nullptr;
    const Description* found = nullptr;
    schema::Tcp* saved = nullptr;  // in the object
    std::string own, peer;
    int state = 0;
    bool taken = false;  // its contents
    std::string layer;   // upper_layer()
    [[nodiscard]] int fd() const { return found->fd(); }
};

// Of one network: each has all addresses and ports for itself.
class TcpSockets {
  public:
    TcpSockets(Table& table, SockDiag& sock_diag)
        : table_(table), sock_diag_(sock_diag), found_(table.of<CallsFound>()) {}

    // `meets`: connections may lead to members on other hosts.
    Result<> capture(const std::vector<std::int64_t>& ids, bool meets) {
        for (const std::int64_t id : ids) {
            Socket& socket = sockets_[id];
            socket.object = &table_.objects[static_cast<std::size_t>(id)];
            socket.found = &table_.descriptions.at(id);
            socket.own = own_address(socket.fd());
            socket.peer = peer_address(socket.fd());
            socket.state = tcp_state(socket.fd()).state;
            socket.saved = socket.object->get<schema::Tcp>();
            if (!socket.peer.empty()) by_connection_[connection(socket.own, socket.peer)] = id;
        }
        if (meets) CHECK_OK(meet_others());
        for (auto& [id, socket] : sockets_)
            if (auto done = look_at(id, socket); !done)
                return std::unexpected(std::move(done.error()).in(socket.found->who()));
        for (auto& [id, socket] : sockets_)
            if (socket.state != TCP_LISTEN && !socket.taken)
                if (auto done = take_contents(socket); !done)
                    return std::unexpected(std::move(done.error()).in(socket.found->who()));
        return {};
    }

  private:
    Result<> look_at(std::int64_t id, Socket& socket) {
        const auto [own, peer] = told_names(socket);
        socket.saved->own = schema::to_bytes(own);
        if (socket.state == TCP_LISTEN) return listening(id, socket);
        if (socket.state == TCP_SYN_SENT) return connecting(id, socket);
        pollfd polled{socket.fd(), POLLRDHUP, 0};
        ::poll(&polled, 1, 0);
        const bool no_more_reading = (polled.revents & POLLRDHUP) != 0;
        // After that: its peer's end may have come since, and is no shutdown(2) of its own.
        socket.state = tcp_state(socket.fd()).state;
        socket.layer = upper_layer(socket.fd());
        // What waits are records: none of them is worth anything without the keys.
        if (!socket.layer.empty()) socket.taken = true;
        if (socket.state == TCP_CLOSE) {
            socket.saved->dead = no_more_reading;
            socket.saved->error = (polled.revents & POLLERR) != 0;
            return {};
        }
        socket.saved->peer_name = schema::to_bytes(peer);
        socket.saved->error = (polled.revents & POLLERR) != 0;
        socket.saved->no_more_sending = has_shut_its_sending(socket.state);
        socket.saved->no_more_reading = no_more_reading && !has_seen_the_end(socket.state);
        const auto partner = by_connection_.find(connection(socket.peer, socket.own));
        if (partner != by_connection_.end() && partner->second != id) {
            CHECK_OK(refuse_layer(socket));
            return connected(id, socket, partner->second);
        }
        if (const auto link = links_.find(id); link != links_.end()) {
            CHECK_OK(refuse_layer(socket));
            return linked(socket, link->second);
        }
        return alone(socket);
    }

    // A connection to somebody outside is reset by a restart, whatever keys and counts it had.
    static Result<> refuse_layer(const Socket& socket) {
        if (socket.layer.empty()) return {};
        return fail_code(
            ExitCode::refused,
            "is a TCP socket with the kernel's {} on it, connected to {}, which isn't outside the "
            "computation: what has been agreed on between the two can't be saved",
            socket.layer, address_words(socket.peer));
    }

    // What the program believes its names to be: own, peer.
    [[nodiscard]] std::pair<std::string, std::string> told_names(const Socket& socket) const {
        std::pair names{as_known(table_.options.region, socket.own),
                        as_known(table_.options.region, socket.peer)};
        if (table_.options.region == nullptr) return names;
        const auto cookie = socket_option<std::uint64_t>(socket.fd(), SOL_SOCKET, SO_COOKIE);
        const SocketName* told = find_socket_name(table_.options.region->sockets, cookie);
        if (told == nullptr) return names;
        if (told->own_length != 0)
            names.first.assign(reinterpret_cast<const char*>(told->own), told->own_length);
        if (told->peer_length != 0)
            names.second.assign(reinterpret_cast<const char*>(told->peer), told->peer_length);
        return names;
    }

    // ---- whose partner is on another host

    Result<> meet_others() {
        std::vector<LinkEnd> ends;
        std::vector<std::int64_t> ids;
        std::vector<LooseEnd> loose;
        if (!sockets_.empty()) CHECK_OK(know_all());
        for (auto& [id, socket] : sockets_) {
            const bool connected = !socket.peer.empty() && socket.state != TCP_LISTEN &&
                                   socket.state != TCP_SYN_SENT && socket.state != TCP_CLOSE;
            // Whose other end is on this host is not looked for elsewhere: loopback addresses are every
            // host's.
            if (!connected || other_end(socket) != nullptr) continue;
            LinkEnd& end = ends.emplace_back();
            end.socket = socket.found;
            end.own = plain_address(socket.own);
            end.peer = plain_address(socket.peer);
            end.who = socket.found->who();
            ids.push_back(id);
        }
        for (const InternetDiagnosis& each : all_.value_or(std::vector<InternetDiagnosis>())) {
            if (each.inode != 0) continue;
            LooseEnd end;
            end.own = plain_address(each.own);
            end.peer = plain_address(each.peer);
            if (is_pending(each.state)) {
                end.listener = listener_of(each.own);
                if (end.listener < 0) continue;  // somebody's who isn't a member
                end.who = sockets_.at(end.listener).found->who();
            } else if (each.state != TCP_FIN_WAIT1 && each.state != TCP_CLOSING &&
                       each.state != TCP_LAST_ACK) {
                continue;
            }
            end.unsent = each.unsent;
            loose.push_back(std::move(end));
        }
        Calls calls = calls_and_listeners();
        CHECK_OK(meet_other_hosts(ends, loose, calls, table_.options.meet));
        for (std::size_t i = 0; i < ends.size(); ++i)
            if (ends[i].link >= 0) links_.emplace(ids[i], std::move(ends[i]));
        return note_awaited(loose, calls);
    }

    // Sockets that are being connected, and where members listen.
    Calls calls_and_listeners() {
        for (const auto& [id, socket] : sockets_) {
            if (socket.state == TCP_SYN_SENT) {
                const auto known = all_by_inode_.find(socket.found->status.st_ino);
                if (known == all_by_inode_.end() || listener_of(known->second->peer) >= 0) continue;
                found_.calls.push_back({"tcp" + plain_address(known->second->peer), id, "", ""});
            } else if (socket.state == TCP_LISTEN) {
                for (const std::string& address : reachable_at(socket.fd(), socket.own))
                    found_.reached.push_back({"tcp" + address, id});
            }
        }
        Calls calls;
        for (const OutgoingCall& each : found_.calls) calls.to.push_back(each.to);
        for (const ReachableAt& each : found_.reached) calls.at.push_back(each.at);
        return calls;
    }

    // What a listener's restart waits for, and who will call it.
    Result<> note_awaited(const std::vector<LooseEnd>& loose, const Calls& calls) {
        std::set<std::size_t> answered;
        for (const auto& [index, link] : calls.answered) {
            answered.insert(index);
            if (const std::int64_t id = found_.calls[index].object; id >= 0) calls_elsewhere_[id] = link;
        }
        for (std::size_t i = 0; i < found_.calls.size(); ++i)
            if (!answered.contains(i) && found_.calls[i].object < 0)
                table_.external(found_.calls[i].what, found_.calls[i].fate);
        for (const auto& [index, link] : calls.awaited)
            if (const std::int64_t id = found_.reached[index].object; id >= 0) awaited_[id].push_back(link);
        bool pending = false;
        for (const LooseEnd& end : loose) {
            if (end.link < 0 || end.listener < 0) continue;
            pending = true;
            awaited_[end.listener].push_back(end.link);
            from_hosts_.insert(end.own + "/" + end.peer);
        }
        if (!pending) return {};
        // Its client had nothing under way any more when all had said so: what it has sent is here by now.
        auto now = TRY(sock_diag_.tcp_sockets());
        for (const InternetDiagnosis& each : now) {
            if (each.inode != 0 || !is_pending(each.state) ||
                !from_hosts_.contains(connection(each.own, each.peer)) ||
                each.waiting <= (each.state == TCP_CLOSE_WAIT ? 1U : 0U))
                continue;
            auto problem =
                fail_code(ExitCode::refused,
                          "{} hasn't accepted a TCP connection from {} yet, on another host, who "
                          "has sent something already: nobody can read that before it is accepted",
                          sockets_.at(listener_of(each.own)).found->who(), address_words(each.peer));
            problem.error().passing = true;
            return problem;
        }
        return {};
    }

    static Result<> linked(Socket& socket, LinkEnd& end) {
        if (end.pending) {
            socket.saved->pending_at = end.link;
            return {};
        }
        socket.saved->link = {.number = end.link,
                              .side = end.side,
                              .arrived = end.arrived,
                              .written = end.written,
                              .sent = end.written ? std::move(end.sent) : schema::Bytes(),
                              .their_unread = end.partner_unread,
                              .their_unsent = end.partner_unsent};
        keep_contents(socket, std::move(end.received));
        return {};
    }

    Result<> connected(std::int64_t id, Socket& socket, std::int64_t partner_id) {
        Socket& partner = sockets_.at(partner_id);
        if (partner_id < id) return {};
        const Inode pair{socket.found->status.st_dev,
                         std::min(socket.found->status.st_ino, partner.found->status.st_ino)};
        socket.object->pipe = partner.object->pipe = table_.pipe_of(pair);
        const auto all_there = [&] { return in_between(socket.fd(), partner.fd()) == 0; };
        if (all_there()) return {};
        for (auto [sender, receiver] : {std::pair{&socket, &partner}, {&partner, &socket}}) {
            auto seen = TRY(look_at_both_queues(*sender, *receiver));
            if (!seen) return move_on(*sender, *receiver, all_there);
        }
        return {};
    }

    // False: not permitted. Timers send and a look opens the window: what was in between at the first
    // question may have arrived at the second.
    Result<bool> look_at_both_queues(Socket& sender, Socket& receiver) {
        for (int tries = 0; tries < 200; ++tries) {
            const std::uint64_t before = tcp_state(receiver.fd()).received;
            auto between = look_between(sender.fd(), receiver.fd());
            if (!between && between.error().passing && tcp_state(receiver.fd()).received != before) continue;
            if (!between) return std::unexpected(std::move(between.error()));
            if (!*between) return false;
            CHECK_OK(take_contents(receiver));
            if (tcp_state(receiver.fd()).received != before) continue;
            if ((*between)->empty()) return true;
            auto& contents = receiver.object->contents;
            if (contents.empty()) contents.emplace_back();
            contents.front().insert(contents.front().end(), (*between)->begin(), (*between)->end());
            return true;
        }
        auto problem = fail_code(ExitCode::refused, "receives without an end, though everybody stands still");
        problem.error().passing = true;
        return problem;
    }

    // Without the privilege to look at what is in between: it goes on to where it can be seen.
    Result<> move_on(Socket& socket, Socket& partner, const std::function<bool()>& all_there) {
        for (auto [sender, receiver] : {std::pair{&socket, &partner}, {&partner, &socket}}) {
            int unacknowledged = 0;
            if (::ioctl(sender->fd(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0) continue;
            // More than there is room for doesn't begin to move: the receiver would only be fuller at the
            // next try.
            int waiting = 0;
            ::ioctl(receiver->fd(), FIONREAD, &waiting);
            const auto room = std::max<std::uint64_t>(
                most_room(),
                static_cast<std::uint64_t>(socket_option<int>(receiver->fd(), SOL_SOCKET, SO_RCVBUF)));
            const auto all = static_cast<std::uint64_t>(waiting) + static_cast<std::uint64_t>(unacknowledged);
            if (all <= room &&
                let_flow(receiver->fd(), sender->fd(), static_cast<std::size_t>(unacknowledged), all_there))
                return {};
            if (!all_there()) keep_small(receiver->fd());
        }
        if (all_there()) return {};
        int waiting = 0, unacknowledged = 0;
        ::ioctl(partner.fd(), FIONREAD, &waiting);
        ::ioctl(socket.fd(), SIOCOUTQ, &unacknowledged);
        auto problem =
            fail_code(ExitCode::refused,
                      "has sent more than {} has room for ({} bytes have arrived, {} have not, its buffer is "
                      "{}), and only root "
                      "may look at what is in between; more room would come with a larger net.ipv4.tcp_rmem",
                      partner.found->who(), waiting, unacknowledged,
                      socket_option<int>(partner.fd(), SOL_SOCKET, SO_RCVBUF));
        problem.error().passing = true;
        return problem;
    }

    // ---- who has no partner in the group

    Result<> know_all() {
        if (all_) return {};
        auto all = TRY(sock_diag_.tcp_sockets());
        all_ = std::move(all);
        // There may be ten thousands, and each is asked for.
        for (const InternetDiagnosis& each : *all_) {
            if (each.state != TCP_LISTEN) all_by_connection_[connection(each.own, each.peer)] = &each;
            if (each.inode != 0) all_by_inode_[each.inode] = &each;
        }
        for (const auto& [id, socket] : sockets_)
            if (socket.state == TCP_LISTEN) listeners_.push_back(id);
        return {};
    }

    [[nodiscard]] const InternetDiagnosis* other_end(const Socket& socket) const {
        const auto found = all_by_connection_.find(connection(socket.peer, socket.own));
        return found == all_by_connection_.end() ? nullptr : found->second;
    }

    [[nodiscard]] std::int64_t listener_of(const std::string& address) const {
        for (const std::int64_t id : listeners_) {
            const Socket& socket = sockets_.at(id);
            const std::string own = plain_address(socket.own), to = plain_address(address);
            const std::string any(own.size() - 2, 0);
            const bool same_port = own.substr(own.size() - 2) == to.substr(to.size() - 2);
            if (same_port && (own == to || own.substr(0, own.size() - 2) == any)) return id;
        }
        return -1;
    }

    Result<> alone(Socket& socket) {
        CHECK_OK(know_all());
        const InternetDiagnosis* other = other_end(socket);
        const bool of_nobody = other != nullptr && other->inode == 0;
        const bool ended = other == nullptr && has_seen_the_end(socket.state);
        if (of_nobody || ended) CHECK_OK(refuse_layer(socket));
        const bool not_accepted = of_nobody && is_pending(other->state);
        if (not_accepted) {
            const std::int64_t listener = listener_of(socket.peer);
            if (listener >= 0) return pending(socket, *other, listener);
        } else if (of_nobody) {
            // Whoever had it has closed it; what was sent before that still comes.
            socket.saved->peer_gone = true;
            return finish_arriving(socket, *other);
        }
        if (ended) {
            socket.saved->peer_gone = true;
            return {};
        }
        return outside(socket);
    }

    Result<> finish_arriving(Socket& socket, const InternetDiagnosis& other) {
        if (other.state != TCP_FIN_WAIT1 && other.state != TCP_CLOSING && other.state != TCP_LAST_ACK)
            return {};
        const bool here = let_flow(socket.fd(), -1, other.unsent, [&] {
            socket.state = tcp_state(socket.fd()).state;
            return has_seen_the_end(socket.state);
        });
        socket.saved->no_more_sending = has_shut_its_sending(socket.state);
        if (here) return {};
        auto problem =
            fail_code(ExitCode::refused,
                      "is a TCP socket whose peer {} has closed, with more to come than there is room for",
                      address_words(socket.peer));
        problem.error().passing = true;
        return problem;
    }

    Result<> pending(Socket& socket, const InternetDiagnosis& other, std::int64_t listener) {
        int unacknowledged = 0;
        ::ioctl(socket.fd(), SIOCOUTQ, &unacknowledged);
        const std::uint32_t end = other.state == TCP_CLOSE_WAIT ? 1 : 0;
        const bool ending = socket.state == TCP_FIN_WAIT1;
        if (other.waiting > end || unacknowledged > (ending ? 1 : 0)) {
            auto problem = fail_code(ExitCode::refused,
                                     "is a TCP socket connected to {}, who hasn't accepted it yet, and has "
                                     "sent something already: nobody "
                                     "can read that before it is accepted",
                                     sockets_.at(listener).found->who());
            problem.error().passing = true;
            return problem;
        }
        socket.saved->listener = listener;
        return {};
    }

    Result<> outside(Socket& socket) {
        socket.object->outside = true;
        // As the program knows it: after a restart the kernel says otherwise.
        if (is_pmix_server(socket.found->holder, address_words(schema::to_string(socket.saved->peer_name)))) {
            socket.saved->launcher = TRY(find_pmix_rank(table_, *socket.found));
            return {};
        }
        table_.external(fmt::format("{} is a TCP socket, {} connected to {}", socket.found->who(),
                                    address_words(socket.own), address_words(socket.peer)),
                        "a restart resets it");
        return {};
    }

    Result<> connecting(std::int64_t id, Socket& socket) {
        CHECK_OK(know_all());
        if (const auto known = all_by_inode_.find(socket.found->status.st_ino); known != all_by_inode_.end())
            socket.peer = known->second->peer;
        if (socket.peer.empty())
            return fail("is a TCP socket that is being connected: sock_diag doesn't say to whom");
        socket.saved->connecting = true;
        socket.saved->peer_name = schema::to_bytes(told_names(socket).second);
        const std::int64_t listener = listener_of(socket.peer);
        if (listener >= 0) socket.saved->listener = listener;
        const auto elsewhere = calls_elsewhere_.find(id);
        if (elsewhere != calls_elsewhere_.end()) socket.saved->pending_at = elsewhere->second;
        if (listener < 0 && elsewhere == calls_elsewhere_.end())
            table_.external(fmt::format("{} is a TCP socket that is being connected to {}",
                                        socket.found->who(), address_words(socket.peer)),
                            "a restart connects it anew");
        return {};
    }

    Result<> listening(std::int64_t id, Socket& socket) {
        // tcp_info of a listening socket: tcpi_unacked connections wait, of tcpi_sacked at most.
        const auto info = socket_option<tcp_info>(socket.fd(), IPPROTO_TCP, TCP_INFO);
        socket.saved->listening = {
            .backlog = info.tcpi_sacked,
            .keep_listening = table_.options.external == ExternalPolicy::keep_listening,
            .awaited = awaited_[id]};
        if (info.tcpi_unacked == 0) return {};
        CHECK_OK(know_all());
        std::size_t from_outside = 0;
        for (const InternetDiagnosis& each : *all_) {
            if (each.inode != 0 || (each.state != TCP_ESTABLISHED && each.state != TCP_CLOSE_WAIT)) continue;
            if (listener_of(each.own) != id || by_connection_.contains(connection(each.peer, each.own)) ||
                from_hosts_.contains(connection(each.own, each.peer)))
                continue;
            // One of the group may have sent, closed, and be gone; no descriptor leads to him any more.
            if (each.state == TCP_CLOSE_WAIT && each.waiting > 1 &&
                host_part(each.own) == host_part(each.peer)) {
                auto problem = fail_code(
                    ExitCode::refused,
                    "is a TCP socket listening at {} that hasn't accepted a connection from {} yet, which "
                    "that client has closed again: what he has sent can't be read before",
                    address_words(socket.own), address_words(each.peer));
                problem.error().passing = true;
                return problem;
            }
            ++from_outside;
        }
        if (from_outside != 0)
            table_.external(
                fmt::format("{} is a TCP socket listening at {}, with {} connections from outside that it "
                            "hasn't accepted",
                            socket.found->who(), address_words(socket.own), from_outside),
                "a restart leaves these out");
        return {};
    }

    Result<> take_contents(Socket& socket) {
        auto received = TRY(look_into_tcp(socket.fd()));
        keep_contents(socket, std::move(received));
        return {};
    }

    static void keep_contents(Socket& socket, Received received) {
        socket.taken = true;
        socket.object->contents.clear();
        if (received.marked) socket.saved->mark = {received.mark, received.urgent};
        if (!received.data.empty()) socket.object->contents.push_back(std::move(received.data));
    }

    Table& table_;
    SockDiag& sock_diag_;
    CallsFound& found_;
    std::map<std::int64_t, Socket> sockets_;
    std::map<std::string, std::int64_t> by_connection_;
    std::map<std::int64_t, LinkEnd> links_;                 // by object: whose partner is on another host
    std::map<std::int64_t, std::int64_t> calls_elsewhere_;  // being connected to a listener there: number
    std::map<std::int64_t, std::vector<std::int64_t>> awaited_;  // listener: numbers of its connections
    std::set<std::string> from_hosts_;                           // connections in their queues
    std::optional<std::vector<InternetDiagnosis>> all_;
    std::unordered_map<std::string, const InternetDiagnosis*> all_by_connection_;
    std::unordered_map<ino_t, const InternetDiagnosis*> all_by_inode_;
    std::vector<std::int64_t> listeners_;  // known when all_ is
};

}  // namespace

bool is_tcp_socket(const Looked& it) {
    return it.internet() && it.protocol == IPPROTO_TCP;
}

Result<> describe_tcp_socket(Table& table, const Description& found, schema::Object& object) {
    object.identity = identity_of(found.status);
    auto& saved = object.what.emplace<schema::Tcp>();
    saved.domain = socket_option<int>(found.fd(), SOL_SOCKET, SO_DOMAIN);
    saved.reuse_address = socket_option<int>(found.fd(), SOL_SOCKET, SO_REUSEADDR);
    saved.options = socket_options_of(found.fd());
    table.of<TcpSocketsFound>().all[object.network].push_back(object.id);
    return {};
}

Result<> capture_tcp_sockets(Table& table) {
    constexpr std::int64_t ours = -1;
    auto& networks = table.of<TcpSocketsFound>().all;
    if (table.options.meet) networks[ours];
    for (const auto& [network, ids] : networks) {
        SockDiag* const sock_diag = TRY(sock_diag_of(table, network));
        CHECK_OK(TcpSockets(table, *sock_diag).capture(ids, table.options.meet && network == ours));
    }
    return {};
}

}  // namespace cairn::capture
