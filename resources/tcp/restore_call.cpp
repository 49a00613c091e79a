#include "resources/tcp/restore_call.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "resources/socket/restore.h"

namespace cairn::restart {

Fd make_tcp_socket(int domain, const schema::SocketOptions& options) {
    Fd fd(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return fd;
    set_int(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    set_socket_options(fd.get(), options, schema::OptionMoment::before_bind);
    if ((options.buffer_lock.value_or(0) & schema::lock_receive) != 0) set_buffers(fd.get(), options);
    return fd;
}

bool take_address(int fd, const Address& own, bool by_connect) {
    return by_connect ? take_for_call(fd, own) : ::bind(fd, own.name(), own.length()) == 0;
}

Result<> wait_connected(int fd) {
    pollfd polled{fd, POLLOUT, 0};
    if (::poll(&polled, 1, 2000) == 0) {
        errno = ETIMEDOUT;
        return fail_errno("connect");
    }
    int problem = 0;
    socklen_t length = sizeof problem;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
    if (problem == 0) return {};
    errno = problem;
    return fail_errno("connect");
}

namespace {

Result<> call_once(const CallSide& from, Fd& caller, const CallSide& to, Fd& answerer, bool by_connect) {
    const Fd listener = make_tcp_socket(to.domain, to.options);
    if (!listener) return fail_errno("socket");
    if (::bind(listener.get(), to.at.name(), to.at.length()) != 0) return fail_errno("{}", to.at.words());
    if (::listen(listener.get(), 8) != 0) return fail_errno("listen at {}", to.at.words());
    Address there = Address::of(listener.get()).in_domain(from.domain);
    caller = make_tcp_socket(from.domain, from.options);
    if (!caller) return fail_errno("socket");
    if (!from.at.empty() && !take_address(caller.get(), from.at, by_connect))
        return fail_errno("{}", from.at.words());
    const int flags = ::fcntl(caller.get(), F_GETFL);
    ::fcntl(caller.get(), F_SETFL, flags | O_NONBLOCK);
    if (::connect(caller.get(), there.name(), there.length()) != 0 && errno != EINPROGRESS)
        return fail_errno("{} to {}", from.at.words(), there.words());
    if (auto done = wait_connected(caller.get()); !done)
        return std::unexpected(
            std::move(done.error()).in(fmt::format("{} to {}", from.at.words(), there.words())));
    const Address own = Address::of(caller.get());
    for (int strangers = 0; strangers < 16; ++strangers) {
        answerer.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!answerer) return fail_errno("accept at {}", to.at.words());
        if (Address::peer_of(answerer.get()).same(own)) return {};
    }
    return fail("too many strangers at {}", to.at.words());
}

}  // namespace

Result<> call(const CallSide& from, Fd& caller, const CallSide& to, Fd& answerer) {
    auto done = call_once(from, caller, to, answerer, true);
    // A port that others are bound to isn't chosen by connect(2).
    if (!done && done.error().number == EADDRNOTAVAIL) done = call_once(from, caller, to, answerer, false);
    return done;
}

}  // namespace cairn::restart
