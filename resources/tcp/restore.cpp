// TCP sockets: connections between members are made anew over this host's own addresses, with the ports that
// they had; others are ended as their programs would have seen them end.
#include "resources/socket/restore.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "common/socket_names.h"
#include "resources/namespace/restore.h"
#include "resources/ports/restore_time_wait.h"
#include "resources/restore/opening.h"
#include "resources/socket/restore_addresses.h"
#include "resources/tcp/restore_call.h"
#include "resources/tcp/restore_fill.h"
#include "resources/tcp/restore_links.h"
#include "resources/tcp/restore_pending.h"

namespace cairn::restart {
namespace {

using schema::Object;
using Clock = std::chrono::steady_clock;

struct End {
    const Object* object = nullptr;
    const schema::Tcp* saved = nullptr;
    Address own, peer_name;
    Fd fd;
    bool renamed = false;  // listens at another address than the program knows
    Fd stand_in;           // the other end, where no member holds it
    bool kept = false;     // finished, and no longer ours
    End* peer = nullptr;
    std::unique_ptr<Link> link;
    [[nodiscard]] CallSide side(const Address& at) const { return {saved->domain, saved->options, at}; }
    [[nodiscard]] TcpUrgency urgency() const {
        const auto* among = schema::find_option<std::int32_t>(saved->options, SOL_SOCKET, SO_OOBINLINE);
        return {saved->mark, among != nullptr && *among != 0};
    }
};

// Of one network (Object::network): each has all addresses and ports for itself.
class TcpSockets {
  public:
    TcpSockets(Opening& opening, std::int64_t network) : opening_(opening), network_(network) {
        if (opening.options.still_wanted) still_wanted_ = opening.options.still_wanted;
    }

    Result<> open() {
        // Real listeners come after the connections, which need the ports for a moment.
        for (const auto step :
             {&TcpSockets::read, &TcpSockets::connect_pairs, &TcpSockets::connect_others,
              &TcpSockets::fill_others, &TcpSockets::connect_lone, &TcpSockets::make_rest,
              &TcpSockets::connect_pending, &TcpSockets::finish_rest, &TcpSockets::set_reuse})
            CHECK_OK((this->*step)());
        return {};
    }

  private:
    Result<> read() {
        std::map<std::int64_t, End*> pairs;
        for (const Object& object : opening_.objects.objects) {
            const auto* saved = object.get<schema::Tcp>();
            if (saved == nullptr || object.network != network_) continue;
            if (object.outside && object.contents.empty() && opening_.stand_in(object)) continue;
            End& end = ends_[object.id];
            end.object = &object;
            end.saved = saved;
            end.own = Address(saved->own);
            end.peer_name = Address(saved->peer_name);
            if (object.pipe < 0) continue;
            const auto [first, added] = pairs.emplace(object.pipe, &end);
            if (added) continue;
            end.peer = first->second;
            first->second->peer = &end;
        }
        return {};
    }

    // The ports may be in TIME_WAIT: of the killed programs' connection one end is, and can be called; or
    // both.
    Result<> connect(End& end, const CallSide& to, Fd& other) {
        Error why;
        for (bool first = true;; first = false) {
            auto done = call(end.side(end.own), end.fd, to, other);
            if (done) return {};
            why = done.error();
            done = call(to, other, end.side(end.own), end.fd);
            if (done) return {};
            if (why.number != EADDRNOTAVAIL && why.number != EADDRINUSE) break;
            if (done.error().number == EADDRNOTAVAIL && !end.own.is_here()) break;
            if (!leftovers_.worth_another_call(end.own, to.at, first)) break;
        }
        return std::unexpected(std::move(why));
    }

    Result<> connect_pairs() {
        for (auto& [id, end] : ends_) {
            if (end.kept || end.peer == nullptr) continue;
            auto done = connect(end, end.peer->side(end.peer->own), end.peer->fd);
            if (!done) {
                if (opening_.options.region == nullptr)
                    opening_.note(
                        "a TCP connection between members, {} and {}, can't have its addresses again ({}): "
                        "getsockname(2) and getpeername(2) tell others",
                        end.own.words(), end.peer->own.words(), done.error().what);
                CHECK_OK(call(end.side({}), end.fd,
                              end.peer->side(Address::loopback(end.peer->saved->domain)), end.peer->fd));
            }
            End* const both[] = {&end, end.peer};
            CHECK_OK(finish(both));
        }
        return {};
    }

    // The other end is another part's.
    Result<> connect_others() {
        std::vector<Link*> links;
        for (auto& [id, end] : ends_) {
            if (!end.saved->link || end.peer != nullptr) continue;
            end.link = std::make_unique<Link>();
            Link& link = *end.link;
            link.saved = *end.saved->link;
            link.urgency = end.urgency();
            link.domain = end.saved->domain;
            link.own = end.own;
            link.peer = end.peer_name;
            const auto* region = opening_.options.region;
            link.peer_now = region == nullptr ? Address() : link.peer.moved(region->sockets);
            if (link.peer_now.empty()) link.peer_now = link.peer;
            link.contents = end.object->contents.empty() ? &none_ : &end.object->contents.front();
            link.make = [&each = end] { return make_tcp_socket(each.saved->domain, each.saved->options); };
            link.bind = [](int fd, const Address& own) { return take_address(fd, own, true); };
            links.push_back(&link);
        }
        if (links.empty()) return {};
        if (!opening_.options.meet_links)
            return fail_code(
                ExitCode::refused,
                "programs of this part are connected to those of another host, and the session's "
                "coordinator knows no other host");
        const LinkSurroundings surroundings{opening_.options.meet_links, still_wanted_,
                                            opening_.options.hosts, kept_ports()};
        CHECK_OK(connect_links(links, surroundings));
        for (auto& [id, end] : ends_)
            if (end.link) end.fd = std::move(end.link->fd);
        return {};
    }

    // What keeps our listeners from their ports and can't be ended from here.
    [[nodiscard]] std::vector<Leftover> kept_ports() const {
        constexpr std::size_t most = 1000;  // they go to other parts by a message
        std::vector<Leftover> kept;
        for (const auto& [id, end] : ends_) {
            if (!end.saved->listening || end.own.port() == 0) continue;
            const Fd probe = make_tcp_socket(end.saved->domain, end.saved->options);
            if (::bind(probe.get(), end.own.name(), end.own.length()) == 0 || errno != EADDRINUSE ||
                !holder_of_port(end.own).empty())
                continue;
            end_time_wait(end.own);
            for (Leftover& each : leftovers_at(end.own))
                if (kept.size() < most) kept.push_back(std::move(each));
        }
        return kept;
    }

    // Our end gets from the other part what it had in its buffer before anybody looks. What the buffer has no
    // room for (it grows up to half of tcp_rmem's limit, and had grown further by itself) stays in the other
    // end's, and comes as the program reads. The other part may still be busy with a third one.
    Result<> await_contents(const End& end) {
        const std::size_t expected = end.link->contents->size();
        auto moved = Clock::now(), raised = moved;
        for (std::size_t last = 0;;) {
            const bool ended = has_ended(end.fd.get());
            const std::size_t here = waiting_in(end.fd.get());
            if (here >= expected || end.saved->mark) return {};
            const auto now = Clock::now();
            if (std::exchange(last, here) != here) moved = raised = now;
            if (now - moved > std::chrono::milliseconds(500)) CHECK_OK(still_wanted_());
            if (now - moved > (here > 0 ? std::chrono::seconds(1) : other_patience)) break;
            if (ended && here == 0)
                return fail("connection {} - {}: its other part has given up", end.own.words(),
                            end.peer_name.words());
            if (now - raised > std::chrono::milliseconds(50)) {
                filling_.receive_more(end.fd.get(), expected - here);
                raised = now;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        if (waiting_in(end.fd.get()) > 0) return {};
        return fail_code(ExitCode::timed_out, "connection {} - {}: nothing has come from the other host",
                         end.own.words(), end.peer_name.words());
    }

    // The channel is over by now, and somebody on the way could have put something else there. What there is
    // no room for yet comes when the program reads, and is as safe as everything else on its connection.
    static Result<> compare_contents(const End& end) {
        const Link& link = *end.link;
        schema::Bytes expected = *link.contents;
        expected.insert(expected.end(), link.between.begin(), link.between.end());
        const auto& mark = end.saved->mark;
        if (mark)  // nobody looks beyond an urgent mark without reading
            expected.resize(std::min<std::size_t>(expected.size(), mark->before));
        const std::size_t here = waiting_in(end.fd.get());
        schema::Bytes came(std::min(here, expected.size()));
        const ssize_t n =
            came.empty() ? 0 : ::recv(end.fd.get(), came.data(), came.size(), MSG_PEEK | MSG_DONTWAIT);
        came.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        if (std::equal(came.begin(), came.end(), expected.begin()) && (mark || here <= expected.size()))
            return {};
        return fail_code(ExitCode::damaged,
                         "connection {} - {}: what came from the other host is not what its part has sent: "
                         "somebody in between has changed it",
                         end.own.words(), end.peer_name.words());
    }

    static bool has_ended(int fd) {
        pollfd polled{fd, POLLRDHUP, 0};
        return ::poll(&polled, 1, 0) > 0;
    }

    static std::size_t waiting_in(int fd) {
        int waiting = 0;
        return ::ioctl(fd, FIONREAD, &waiting) == 0 ? static_cast<std::size_t>(std::max(waiting, 0)) : 0;
    }

    // Sends what the other end had received and not read, and what was in between.
    Result<> fill_other(End& end) {
        const Link& link = *end.link;
        if (!link.contents->empty()) filling_.receive_more(end.fd.get(), link.contents->size());
        if (link.to_send.empty() && !link.their_urgency.mark) return {};
        const int fd = end.fd.get();
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        hold_more(fd, link.to_send.size());
        const Filling::Received theirs{std::span(link.to_send).first(link.received_size), link.their_urgency,
                                       -1};
        CHECK_OK(filling_.fill(theirs, fd));
        const auto between = std::span(link.to_send).subspan(link.received_size);
        CHECK_OK(filling_.send(fd, -1, between));
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, 0);
        return {};
    }

    // What the programs are told is what they knew.
    void name(const End& end) {
        if (opening_.options.region == nullptr || end.own.empty()) return;
        const Address own = Address::of(end.fd.get()), peer = Address::peer_of(end.fd.get());
        const bool own_same = own.same(end.own);
        const bool peer_same = end.peer_name.empty() || peer.empty() || peer.same(end.peer_name);
        if (own_same && peer_same) return;
        std::uint64_t cookie = 0;
        socklen_t size = sizeof cookie;
        if (::getsockopt(end.fd.get(), SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 &&
            add_socket_name(opening_.options.region->sockets, cookie, end.own.name(), end.own.length(),
                            end.peer_name.name(), end.peer_name.length()))
            return;
        opening_.note("{} is {} now, and getsockname(2) tells so: the table of names is full",
                      end.own.words(), own.words());
    }

    // Nobody is at the other end any more, or is outside.
    Result<> connect_lone() {
        for (auto& [id, end] : ends_) {
            const bool lone = end.saved->peer_gone || end.saved->dead || end.object->outside;
            if (end.fd || !lone || end.peer != nullptr) continue;
            const bool named = end.saved->peer_gone && end.peer_name.is_here();
            const int domain = end.saved->domain;
            const schema::SocketOptions none;
            auto done = named ? connect(end, {end.peer_name.domain(), none, end.peer_name}, end.stand_in)
                              : fail("not here");
            const auto call_anybody = [&] {
                const Address any_port = end.own.with_port(0).in_domain(domain);
                return call(end.side(end.own), end.fd, {domain, none, any_port}, end.stand_in);
            };
            if (!done && !end.own.empty()) done = call_anybody();
            // Before Linux 6.3 (IP_LOCAL_PORT_RANGE) what an old connection in TIME_WAIT has can't be taken
            // beside it.
            if (!done && !end.own.empty() && done.error().number == EADDRINUSE) {
                end_time_wait(end.own);
                done = call_anybody();
            }
            if (!done)
                done = call(end.side({}), end.fd, {domain, none, Address::loopback(domain)}, end.stand_in);
            if (!done) return std::unexpected(std::move(done.error()).in(Address(end.saved->own).words()));
            End* const alone[] = {&end};
            CHECK_OK(finish(alone));
        }
        return {};
    }

    Result<> make_rest() {
        // Those of who will call: without root's help only as long as nobody listens where they called.
        for (const auto& [id, end] : ends_)
            if (!end.kept && !end.fd && end.saved->is_pending()) end_leftover(end.own, end.peer_name);
        for (auto& [id, end] : ends_) {
            if (end.kept || end.fd) continue;
            end.fd = make_tcp_socket(end.saved->domain, end.saved->options);
            if (!end.fd) return fail_errno("socket");
            if (end.own.port() == 0) continue;
            if (end.saved->is_pending() && take_own_address(end)) continue;
            if (!bind_once_free(end)) {
                const int problem = errno;
                CHECK_OK(still_wanted_());
                CHECK_OK(bind_elsewhere(end, problem));
            }
            if (!end.saved->listening) continue;
            if (::listen(end.fd.get(), static_cast<int>(end.saved->listening->backlog)) != 0)
                return fail_errno("listen at {}", end.own.words());
        }
        return {};
    }

    // Of a socket that will call. On a host with other addresses it gets that host's, or any.
    bool take_own_address(End& end) const {
        const int fd = end.fd.get();
        if (take_address(fd, end.own, true)) return true;
        if (errno != EADDRNOTAVAIL || opening_.options.region == nullptr) return false;
        end.renamed = true;
        const Address now = end.own.moved(opening_.options.region->sockets);
        if (now.empty() || !take_address(fd, now, true)) call_from_any_port(fd);
        return true;
    }

    // Connections of the killed programs that are in TIME_WAIT, a minute long, keep a port from a server that
    // hasn't set SO_REUSEADDR (it counts on both sides). Those that can't be ended are waited for.
    bool bind_once_free(const End& end) {
        const auto bind = [&] { return ::bind(end.fd.get(), end.own.name(), end.own.length()) == 0; };
        if (bind()) return true;
        const int why = errno;
        if (why != EADDRINUSE || !end.saved->listening || keeps_listening(end) ||
            !holder_of_port(end.own).empty()) {
            errno = why;
            return false;
        }
        end_time_wait(end.own);
        const auto begin = Clock::now();
        bool bound = bind();
        while (!bound && errno == EADDRINUSE && Clock::now() - begin < std::chrono::seconds(62) &&
               still_wanted_()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            bound = bind();
        }
        const int problem = errno;
        const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count();
        if (bound && waited > 0)
            opening_.note(
                "{} s were waited for port {}: the kernel kept it for connections that the kill has ended",
                waited, end.own.words());
        errno = problem;
        return bound;
    }

    Result<> bind_elsewhere(End& end, int problem) {
        // The host has another address now.
        if (problem == EADDRNOTAVAIL && opening_.options.region != nullptr) {
            const Address now = end.own.moved(opening_.options.region->sockets);
            if (!now.empty() && ::bind(end.fd.get(), now.name(), now.length()) == 0) {
                end.renamed = true;
                return {};
            }
        }
        const std::string who = problem == EADDRINUSE ? holder_of_port(end.own) : std::string();
        const bool may_move = keeps_listening(end) || !end.saved->listening;
        if (may_move && ::bind(end.fd.get(), end.own.with_port(0).name(), end.own.length()) == 0) {
            opening_.note("{} is taken{}: a TCP socket that was bound to it is at {} now", end.own.words(),
                          who, Address::of(end.fd.get()).words());
            return {};
        }
        errno = problem;
        if (problem == EADDRINUSE) return refuse_taken_port(end.own, who);
        if (problem == EADDRNOTAVAIL)
            return fail_code(ExitCode::refused,
                             "this host has no address {}: a restored program listens there",
                             end.own.words());
        return fail_errno("{}: bind", end.own.words());
    }

    // They wait to be accepted as they did. And who was about to connect is so again.
    Result<> connect_pending() {
        for (auto& [id, end] : ends_) {
            if (!end.saved->is_pending() || end.saved->pending_at) continue;
            set_nonblocking(end.fd.get());
            const int problem = call_listener(end);
            if (problem != 0) note_no_call(end, std::strerror(problem));
            if (!end.saved->connecting && problem == 0) (void)wait_connected(end.fd.get());
        }
        return connect_to_parts();
    }

    // The killed program's connection may have been accepted behind the checkpoint, and have ended: then it
    // is in TIME_WAIT like any other. 0: called; or an errno value.
    int call_listener(End& end) {
        const auto call = [&end](int fd) {
            const int done = ::connect(fd, end.peer_name.name(), end.peer_name.length());
            return done == 0 || errno == EINPROGRESS ? 0 : errno;
        };
        int problem = call(end.fd.get());
        for (bool first = true; problem == EADDRNOTAVAIL; first = false) {
            if (!leftovers_.worth_another_call(end.own, end.peer_name, first)) break;
            problem = call(end.fd.get());
        }
        if (problem != EADDRNOTAVAIL) return problem;
        // A port that others are bound to isn't chosen by connect(2).
        Fd bound = make_tcp_socket(end.saved->domain, end.saved->options);
        if (bound && take_address(bound.get(), end.own, false)) {
            set_nonblocking(bound.get());
            if (call(bound.get()) == 0) {
                end.fd = std::move(bound);
                return 0;
            }
        }
        call_from_any_port(end.fd.get());
        end.renamed = true;
        problem = call(end.fd.get());
        if (problem == 0 && opening_.options.region == nullptr)
            opening_.note(
                "a connection to {} that wasn't accepted yet can't have its address {} again: "
                "getsockname(2) tells another",
                end.peer_name.words(), end.own.words());
        return problem;
    }

    // Those of other parts, and to them.
    Result<> connect_to_parts() {
        std::vector<AwaitedCall> awaited;
        std::vector<PendingCall> calls;
        std::vector<End*> callers;
        for (auto& [id, end] : ends_) {
            if (end.saved->listening)
                for (const std::int64_t number : end.saved->listening->awaited)
                    awaited.push_back({number, Address::of(end.fd.get())});
            if (!end.saved->pending_at) continue;
            set_nonblocking(end.fd.get());
            calls.push_back({.number = *end.saved->pending_at,
                             .fd = end.fd.get(),
                             .domain = end.saved->domain,
                             .listener = end.peer_name,
                             .established = !end.saved->connecting,
                             .problem = {}});
            callers.push_back(&end);
        }
        CHECK_OK(call_listeners(awaited, calls, opening_.options.meet_links));
        for (std::size_t i = 0; i < calls.size(); ++i) {
            if (!calls[i].problem.empty()) note_no_call(*callers[i], calls[i].problem);
            callers[i]->renamed = true;
        }
        return {};
    }

    static bool keeps_listening(const End& end) {
        return end.saved->listening && end.saved->listening->keep_listening;
    }

    static void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

    void note_no_call(const End& end, const std::string& why) const {
        opening_.note("a connection to {} that wasn't accepted yet can't be made again: {}",
                      end.peer_name.words(), why);
    }

    // Before anything that may take long: the other part waits for what comes from here, and a port may have
    // to be waited for, for a minute, by one of the two only.
    Result<> fill_others() {
        for (auto& [id, end] : ends_)
            if (end.link)
                if (auto done = fill_other(end); !done)
                    return std::unexpected(std::move(done.error()).in(end.own.words()));
        for (auto& [id, end] : ends_) {
            if (!end.link) continue;
            auto done = await_contents(end);
            if (done) done = compare_contents(end);
            if (!done) return done;
        }
        return {};
    }

    Result<> fill(End& end) {
        const int sender = end.stand_in ? end.stand_in.get() : end.peer ? end.peer->fd.get() : -1;
        if (sender < 0 || (end.object->contents.empty() && !end.saved->mark)) return {};
        set_int(sender, IPPROTO_TCP, TCP_NODELAY, 1);
        if (!end.object->contents.empty()) hold_more(sender, end.object->contents.front().size());
        const TcpUrgency urgency = end.urgency();
        const Filling::Received received{end.object->contents.empty()
                                             ? std::span<const std::uint8_t>()
                                             : std::span(end.object->contents.front()),
                                         urgency, end.fd.get()};
        if (auto done = filling_.fill(received, sender); !done)
            return std::unexpected(std::move(done.error()).in(end.own.words()));
        set_int(sender, IPPROTO_TCP, TCP_NODELAY, 0);
        return {};
    }

    // An MPI program's: somebody answers in the launcher's place (restart/pmi).
    static bool is_of_launcher(const End& end) {
        return end.saved->launcher && !end.saved->error && !end.saved->peer_gone;
    }

    static void end_stand_in(End& end) {
        const bool reset = end.object->outside || end.saved->error;
        if (reset) {
            const linger at_once{1, 0};
            ::setsockopt(end.stand_in.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        if (end.saved->dead && !reset) ::shutdown(end.fd.get(), SHUT_WR);
        end.stand_in.reset();
    }

    // A connection is finished as soon as it stands, with its ends together: of thousands of them only one is
    // open here at a time, where the limit of descriptors asks for that.
    Result<> finish(std::span<End* const> ends) {
        for (End* const end : ends) CHECK_OK(fill(*end));
        for (End* const end : ends) {
            if (end->saved->no_more_sending) ::shutdown(end->fd.get(), SHUT_WR);
            if (end->saved->no_more_reading) ::shutdown(end->fd.get(), SHUT_RD);
            if (is_of_launcher(*end)) opening_.launchers.emplace(end->object->id, std::move(end->stand_in));
            if (end->stand_in) end_stand_in(*end);
        }
        for (End* const end : ends) CHECK_OK(keep(*end));
        return {};
    }

    Result<> keep(End& end) {
        const int fd = end.fd.get();
        schema::SocketOptions options = end.saved->options;
        set_socket_options(fd, options, schema::OptionMoment::last);
        if (filling_.is_over(fd)) {
            socklen_t length = sizeof options.receive_buffer;
            ::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &options.receive_buffer, &length);
        }
        set_buffers(fd, options);
        if (end.link || end.peer != nullptr || end.renamed || is_of_launcher(end)) name(end);
        CHECK_OK(set_flags(fd, *end.object));
        CHECK_OK(opening_.keep(*end.object, std::move(end.fd)));
        end.kept = true;
        return {};
    }

    Result<> finish_rest() {
        std::vector<End*> rest;
        for (auto& [id, end] : ends_)
            if (!end.kept) rest.push_back(&end);
        return finish(rest);
    }

    // Others had to be bound to the same port, which the kernel allows only if all of them say so.
    Result<> set_reuse() {
        for (auto& [id, end] : ends_) {
            const int reuse = end.saved->reuse_address;
            if (reuse == 1) continue;
            const auto lent = TRY(opening_.opened.lend(id));
            set_int(lent.get(), SOL_SOCKET, SO_REUSEADDR, reuse);
        }
        return {};
    }

    Opening& opening_;
    std::int64_t network_;
    StillWanted still_wanted_ = [] { return Result<>(); };
    std::map<std::int64_t, End> ends_;  // by object
    Filling filling_{still_wanted_};
    schema::Bytes none_;
    LeftoverPatience leftovers_;
};

}  // namespace

Result<> open_tcp_sockets(Opening& opening) {
    CHECK_OK(opening.opened.hand_over());  // the sockets are open at once
    return in_each_network<schema::Tcp>(
        opening, [&](std::int64_t network) { return TcpSockets(opening, network).open(); });
}

}  // namespace cairn::restart
