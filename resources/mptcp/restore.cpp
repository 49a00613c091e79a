// MPTCP sockets that aren't connected: made again, with their names and options, and listening.
#include "resources/socket/restore.h"

#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <map>
#include <thread>

#include "resources/namespace/restore.h"
#include "resources/ports/restore_time_wait.h"
#include "resources/restore/opening.h"
#include "resources/socket/restore_addresses.h"

namespace cairn::restart {
namespace {

using schema::Object;

Result<Fd> make_mptcp_socket(int domain) {
    Fd fd(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP));
    if (fd) return fd;
    // Linux before 5.6, which knows no protocol of such a number, says EINVAL.
    if (errno == EPROTONOSUPPORT || errno == EINVAL)
        return fail_code(ExitCode::refused,
                         "this kernel has no MPTCP (Linux 5.6, CONFIG_MPTCP), and a restored program has "
                         "such a socket: restart on another machine");
    if (errno == ENOPROTOOPT)
        return fail_code(ExitCode::refused,
                         "MPTCP is switched off here, and a restored program has such a socket: switch it "
                         "on (sysctl net.mptcp.enabled=1) and restart again");
    return fail_errno("socket of MPTCP");
}

// A buffer that the kernel sizes is left to it: a size that is set is the program's from then on, and MPTCP
// doesn't take that back (SO_BUF_LOCK can be asked there and not set).
schema::SocketOptions own_buffers(schema::SocketOptions options) {
    if (!options.buffer_lock) return options;
    if ((*options.buffer_lock & schema::lock_send) == 0) options.send_buffer = 0;
    if ((*options.buffer_lock & schema::lock_receive) == 0) options.receive_buffer = 0;
    options.buffer_lock.reset();
    return options;
}

// Of one network (Object::network).
class MptcpSockets {
  public:
    MptcpSockets(Opening& opening, std::int64_t network) : opening_(opening), network_(network) {}

    // All are bound before the first of them listens: at a port where somebody listens nobody else can be
    // bound, SO_REUSEADDR or not.
    Result<> open() {
        for (const Object& object : opening_.objects.objects)
            if (const auto* saved = object.get<schema::Mptcp>();
                saved != nullptr && object.network == network_)
                CHECK_OK(with_name(object, make(ends_[object.id], object, *saved)));
        CHECK_OK(let_connections_share(true));
        for (auto& [id, end] : ends_) CHECK_OK(with_name(*end.object, bind(end)));
        for (auto& [id, end] : ends_) CHECK_OK(with_name(*end.object, finish(end)));
        CHECK_OK(let_connections_share(false));
        for (auto& [id, end] : ends_) CHECK_OK(with_name(*end.object, keep(end)));
        return {};
    }

  private:
    struct End {
        const Object* object = nullptr;
        const schema::Mptcp* saved = nullptr;
        Address own;  // of now: programs know it by another one where the host has moved
        Fd fd;
    };

    [[nodiscard]] Address of_now(const Address& known) const {
        if (opening_.options.region == nullptr || known.empty() || known.is_any()) return known;
        const Address now = known.moved(opening_.options.region->sockets);
        return now.empty() ? known : now;
    }

    Result<> make(End& end, const Object& object, const schema::Mptcp& saved) {
        end.object = &object;
        end.saved = &saved;
        end.fd = TRY(make_mptcp_socket(saved.domain));
        const int fd = end.fd.get();
        // Set on every socket at the port it makes a bind(2) possible beside connections, accepted ones as
        // well as those in TIME_WAIT.
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        set_socket_options(fd, saved.options, schema::OptionMoment::before_bind);
        if (saved.own.empty()) return {};
        const Address known(saved.own);
        const std::size_t size = saved.domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        if (known.length() != size || known.domain() != saved.domain)
            return fail_code(ExitCode::damaged, "its address is none of its family");
        end.own = of_now(known);
        // An address without a port can be had in this way only.
        if (end.own.port() == 0) set_int(fd, IPPROTO_IP, schema::ip_bind_address_no_port, 1);
        return {};
    }

    // Accepted connections of plain TCP have the listener's port, and are there already. Both bind(2) and
    // listen(2) ask all sockets at the port whether they share it.
    Result<> let_connections_share(bool share) {
        for (const Object& object : opening_.objects.objects) {
            const auto* tcp = object.get<schema::Tcp>();
            if (tcp == nullptr || object.network != network_ || tcp->reuse_address != 0 ||
                !has_port(Address(tcp->own).port()))
                continue;
            const Lent connection = TRY(opening_.opened.lend(object.id));
            if (connection) set_int(connection.get(), SOL_SOCKET, SO_REUSEADDR, share ? 1 : 0);
        }
        return {};
    }

    [[nodiscard]] bool has_port(std::uint16_t port) const {
        return port != 0 &&
               std::ranges::any_of(ends_, [&](const auto& each) { return each.second.own.port() == port; });
    }

    Result<> bind(End& end) {
        if (end.own.empty()) return {};
        const int problem = bind_once_free(end);
        if (problem == 0) return {};
        const std::string who = problem == EADDRINUSE ? holder_of_port(end.own) : std::string();
        const bool may_move = end.saved->keep_listening || !end.saved->backlog;
        if (problem == EADDRINUSE && may_move && bind_to(end, end.own.with_port(0)) == 0) {
            opening_.note("{} is taken{}: an MPTCP socket that was bound to it is at {} now", end.own.words(),
                          who, Address::of(end.fd.get()).words());
            return {};
        }
        if (problem == EADDRINUSE) return refuse_taken_port(end.own, who);
        if (problem == EADDRNOTAVAIL)
            return fail_code(ExitCode::refused,
                             "this host has no address {}: a restored program has a socket that is bound "
                             "to it",
                             end.own.words());
        if (problem == EACCES)
            return fail_code(ExitCode::refused, "port {} is for root (CAP_NET_BIND_SERVICE): restart as root",
                             end.own.words());
        errno = problem;
        return fail_errno("bind to {}", end.own.words());
    }

    // 0 or an errno value.
    static int bind_to(const End& end, const Address& address) {
        return ::bind(end.fd.get(), address.name(), address.length()) == 0 ? 0 : errno;
    }

    // Connections of the killed program keep the port of a listener that hasn't set SO_REUSEADDR for a
    // minute: in TIME_WAIT, or because the other end doesn't hang up (docs/ports.md). What can't be ended is
    // waited for, as TCP's room does for its listeners.
    int bind_once_free(const End& end) {
        using Clock = std::chrono::steady_clock;
        int problem = bind_to(end, end.own);
        if (problem != EADDRINUSE || !end.saved->backlog || end.saved->keep_listening ||
            !holder_of_port(end.own).empty())
            return problem;
        end_time_wait(end.own);
        const auto begin = Clock::now();
        const auto wanted = [&] {
            return !opening_.options.still_wanted || opening_.options.still_wanted().has_value();
        };
        while ((problem = bind_to(end, end.own)) == EADDRINUSE &&
               Clock::now() - begin < std::chrono::seconds(62) && wanted())
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count();
        if (problem == 0 && waited > 0)
            opening_.note(
                "{} s were waited for port {}: the kernel kept it for connections that the kill has ended",
                waited, end.own.words());
        return problem;
    }

    static Result<> finish(const End& end) {
        const int fd = end.fd.get();
        set_socket_options(fd, end.saved->options, schema::OptionMoment::last);
        set_buffers(fd, own_buffers(end.saved->options));
        if (!end.saved->backlog) return {};
        const auto backlog = static_cast<int>(std::min<std::uint32_t>(*end.saved->backlog, INT_MAX));
        if (::listen(fd, backlog) != 0) return fail_errno("listen at {}", end.own.words());
        return {};
    }

    Result<> keep(End& end) {
        set_int(end.fd.get(), SOL_SOCKET, SO_REUSEADDR, end.saved->reuse_address);
        CHECK_OK(set_flags(end.fd.get(), *end.object));
        return opening_.keep(*end.object, std::move(end.fd));
    }

    Opening& opening_;
    std::int64_t network_;
    std::map<std::int64_t, End> ends_;  // by object
};

}  // namespace

Result<> open_mptcp_sockets(Opening& opening) {
    CHECK_OK(opening.opened.hand_over());  // the sockets are open at once
    return in_each_network<schema::Mptcp>(
        opening, [&](std::int64_t network) { return MptcpSockets(opening, network).open(); });
}

}  // namespace cairn::restart
