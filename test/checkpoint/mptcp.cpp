// MPTCP sockets (IPPROTO_MPTCP, what Go makes its listeners): new, bound, listening, over IPv4 and IPv6, with
// their options, after a connect that failed, nonblocking, with a thread asleep in accept, with connections
// of plain TCP that were accepted, several at one port, held twice, and by a child.
// ci: exact user
// network: own (the ports that it has had must be free at its restart)
// narrow: exact
// heirs: none
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace {

using test::Check;

struct Name {
    sockaddr_storage bytes{};
    socklen_t length = sizeof bytes;
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
    [[nodiscard]] int domain() const { return bytes.ss_family; }
    // Both families have it at the same place.
    [[nodiscard]] in_port_t& port() { return reinterpret_cast<sockaddr_in*>(&bytes)->sin_port; }
    [[nodiscard]] int port() const { return ntohs(reinterpret_cast<const sockaddr_in*>(&bytes)->sin_port); }
    bool operator==(const Name& other) const {
        return length == other.length && std::memcmp(&bytes, &other.bytes, length) == 0;
    }
};

Name name(int domain, const char* host, int port) {
    Name made;
    made.bytes.ss_family = static_cast<sa_family_t>(domain);
    made.length = domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    made.port() = htons(static_cast<in_port_t>(port));
    CHECK(inet_pton(domain, host,
                    domain == AF_INET
                        ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&made.bytes)->sin_addr)
                        : &reinterpret_cast<sockaddr_in6*>(&made.bytes)->sin6_addr) == 1);
    return made;
}
const char* loopback(int domain) {
    return domain == AF_INET ? "127.0.0.1" : "::1";
}
const char* any(int domain) {
    return domain == AF_INET ? "0.0.0.0" : "::";
}

int mptcp(int domain, int flags = 0) {
    const int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC | flags, IPPROTO_MPTCP);
    if (fd < 0 && (errno == EPROTONOSUPPORT || errno == ENOPROTOOPT || errno == EINVAL))
        test::skip("no MPTCP");
    CHECK(fd >= 0);
    return fd;
}

bool bind_to(int fd, const Name& name) {
    return bind(fd, name.get(), name.length) == 0;
}
bool connect_to(int fd, const Name& name) {
    return connect(fd, name.get(), name.length) == 0;
}
Name name_of(int fd) {
    Name own;
    CHECK(getsockname(fd, own.get(), &own.length) == 0);
    return own;
}

// To a port that nobody is given unasked: it has to be free when the program is restarted.
Name bind_somewhere(int fd, const char* host = nullptr) {
    static int next = getpid() * 7 % 9000;
    const int domain = test::option(fd, SOL_SOCKET, SO_DOMAIN);
    for (;;) {
        const Name wanted = name(domain, host != nullptr ? host : loopback(domain), 21'000 + next++ % 9000);
        if (bind_to(fd, wanted)) return wanted;
        CHECK(errno == EADDRINUSE);
    }
}

short shown(int fd) {
    pollfd polled{fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    CHECK(poll(&polled, 1, 0) >= 0);
    return polled.revents;
}
bool readable_soon(int fd) {
    pollfd polled{fd, POLLIN, 0};
    return poll(&polled, 1, 10'000) == 1;
}

// The backlog, as the kernel tells it: since Linux 5.16.
int backlog(int fd) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
    CHECK(info.tcpi_state == TCP_LISTEN && info.tcpi_unacked == 0);
    return static_cast<int>(info.tcpi_sacked);
}

bool is_mptcp(int fd) {
    return test::option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_MPTCP;
}

bool is_new(int fd, int domain) {
    return is_mptcp(fd) && name_of(fd) == name(domain, any(domain), 0) &&
           test::option(fd, SOL_SOCKET, SO_DOMAIN) == domain &&
           test::option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0 && (shown(fd) & ~POLLHUP) == POLLOUT;
}

// The port is really held: nobody else gets it, and the socket takes no other.
void check_bound(int fd, const Name& wanted) {
    CHECK(is_mptcp(fd) && name_of(fd) == wanted);
    CHECK(!bind_to(fd, name(wanted.domain(), loopback(wanted.domain()), 0)) && errno == EINVAL);
    const int other = socket(wanted.domain(), SOCK_STREAM, 0);
    CHECK(!bind_to(other, wanted) && errno == EADDRINUSE);
    close(other);
}

// Without the minute for which the kernel would keep the port of a connection.
void hang_up(int fd) {
    const linger at_once{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

int call(const Name& wanted, int protocol) {
    const int caller = socket(wanted.domain(), SOCK_STREAM | SOCK_CLOEXEC, protocol);
    CHECK(caller >= 0 && connect_to(caller, wanted));
    return caller;
}

void check_talking(int caller, int accepted) {
    char bytes[2] = "";
    CHECK(write(caller, "c", 1) == 1 && read(accepted, bytes, 1) == 1 && bytes[0] == 'c');
    CHECK(write(accepted, "s", 1) == 1 && read(caller, bytes, 1) == 1 && bytes[0] == 's');
}

// A client is served, of plain TCP and of MPTCP: each gets a connection of its own kind.
void check_callable(int fd, const Name& at) {
    for (const int protocol : {static_cast<int>(IPPROTO_TCP), static_cast<int>(IPPROTO_MPTCP)}) {
        const int caller = call(at, protocol);
        CHECK(readable_soon(fd));
        const int accepted = accept(fd, nullptr, nullptr);
        CHECK(accepted >= 0 && test::option(accepted, SOL_SOCKET, SO_PROTOCOL) == protocol);
        check_talking(caller, accepted);
        hang_up(caller);
        hang_up(accepted);
    }
}

// At the address `at` clients find it.
void check_listening(int fd, const Name& own, const Name& at, int waiting) {
    check_bound(fd, own);
    CHECK(test::option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1 && shown(fd) == 0);
    CHECK(backlog(fd) == -1 || backlog(fd) == waiting);
    check_callable(fd, at);
}

template <int domain>
Check unbound() {
    const int fd = mptcp(domain), deaf = mptcp(domain, SOCK_NONBLOCK);
    return [=](bool last) {
        CHECK(is_new(fd, domain) && is_new(deaf, domain));
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0 && (fcntl(deaf, F_GETFL) & O_NONBLOCK) != 0);
        if (!last) return;
        const Name own = bind_somewhere(fd);
        CHECK(listen(fd, 1) == 0);
        check_listening(fd, own, own, 1);
        // What was never bound can call as well.
        const int caller = mptcp(domain);
        CHECK(connect_to(caller, own));
        const int accepted = accept(fd, nullptr, nullptr);
        CHECK(is_mptcp(accepted));
        check_talking(caller, accepted);
    };
}

template <int domain>
Check bound() {
    const int given = mptcp(domain), everywhere = mptcp(domain);
    const Name given_name = bind_somewhere(given), everywhere_name = bind_somewhere(everywhere, any(domain));
    return [=](bool last) {
        check_bound(given, given_name);
        check_bound(everywhere, everywhere_name);
        CHECK((shown(given) & ~POLLHUP) == POLLOUT && test::option(given, SOL_SOCKET, SO_ACCEPTCONN) == 0);
        if (!last) return;
        CHECK(listen(given, 4) == 0);
        check_listening(given, given_name, given_name, 4);
    };
}

template <int domain>
Check listening() {
    const int fd = mptcp(domain), deaf = mptcp(domain, SOCK_NONBLOCK);
    const Name own = bind_somewhere(fd), deaf_name = bind_somewhere(deaf, any(domain));
    CHECK(listen(fd, 5) == 0 && listen(deaf, 0) == 0);
    return [=](bool) {
        check_listening(fd, own, own, 5);
        CHECK(accept(deaf, nullptr, nullptr) == -1 && errno == EAGAIN);
        check_listening(deaf, deaf_name, name(domain, loopback(domain), deaf_name.port()), 0);
        CHECK((fcntl(deaf, F_GETFL) & O_NONBLOCK) != 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    };
}

// A listener of IPv6 takes calls over IPv4, unless it has said that it won't.
Check both_families() {
    const int both = mptcp(AF_INET6), six = mptcp(AF_INET6), four = mptcp(AF_INET);
    test::set_option(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    test::set_option(six, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    const Name both_name = bind_somewhere(both, "::"), six_name = bind_somewhere(six, "::");
    const Name four_name = name(AF_INET, "0.0.0.0", six_name.port());
    CHECK(bind_to(four, four_name) && listen(four, 2) == 0);
    CHECK(listen(both, 3) == 0 && listen(six, 3) == 0);
    return [=](bool) {
        check_callable(both, name(AF_INET, "127.0.0.1", both_name.port()));
        check_callable(both, name(AF_INET6, "::1", both_name.port()));
        check_callable(six, name(AF_INET6, "::1", six_name.port()));
        check_callable(four, name(AF_INET, "127.0.0.1", six_name.port()));
        CHECK(name_of(six) == six_name && name_of(four) == four_name && name_of(both) == both_name);
    };
}

timeval time_of(int fd, int option) {
    timeval value{};
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 && length == sizeof value);
    return value;
}

// What a kernel has no option of yet is -1.
int option_if_any(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}

// All that can be read of a socket's options.
struct Options {
    std::vector<int> values;
    timeval receiving;
    std::string congestion;
    bool operator==(const Options& other) const {
        return values == other.values && receiving.tv_sec == other.receiving.tv_sec &&
               receiving.tv_usec == other.receiving.tv_usec && congestion == other.congestion;
    }
};

Options options_of(int fd) {
    Options found;
    for (const int option : {SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE, SO_RCVBUF, SO_SNDBUF, SO_PRIORITY})
        found.values.push_back(test::option(fd, SOL_SOCKET, option));
    for (const int option :
         {TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_DEFER_ACCEPT, TCP_FASTOPEN, TCP_NOTSENT_LOWAT})
        found.values.push_back(option_if_any(fd, IPPROTO_TCP, option));
    for (const int option : {IP_TOS, IP_FREEBIND})
        found.values.push_back(option_if_any(fd, IPPROTO_IP, option));
    found.receiving = time_of(fd, SO_RCVTIMEO);
    char congestion[16] = "";
    socklen_t length = sizeof congestion - 1;
    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &length);
    found.congestion = congestion;
    return found;
}

// Some of these came to MPTCP in one kernel, some in another.
void try_option(int fd, int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);
}

void set_options(int fd) {
    for (const auto& [option, value] : {std::pair{SO_REUSEADDR, 1},
                                        {SO_KEEPALIVE, 1},
                                        {SO_RCVBUF, 50'000},
                                        {SO_SNDBUF, 60'000},
                                        {SO_PRIORITY, 3}})
        try_option(fd, SOL_SOCKET, option, value);
    for (const auto& [option, value] : {std::pair{TCP_NODELAY, 1},
                                        {TCP_KEEPIDLE, 99},
                                        {TCP_KEEPINTVL, 44},
                                        {TCP_DEFER_ACCEPT, 7},
                                        {TCP_FASTOPEN, 6},
                                        {TCP_NOTSENT_LOWAT, 4000}})
        try_option(fd, IPPROTO_TCP, option, value);
    try_option(fd, IPPROTO_IP, IP_TOS, 0x10);
    const timeval patience{7, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

template <int domain>
Check options() {
    const int plain = mptcp(domain), set = mptcp(domain), bound = mptcp(domain), listener = mptcp(domain),
              unusual = mptcp(domain);
    set_options(set);
    set_options(bound);
    CHECK(bind_somewhere(bound).port() > 0);
    const Name own = bind_somewhere(listener);
    CHECK(listen(listener, 3) == 0);
    set_options(listener);
    try_option(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 0);
    try_option(unusual, IPPROTO_IP, IP_FREEBIND, 1);
    test::set_option(unusual, SOL_SOCKET, SO_REUSEPORT, 1);
    const Options defaults = options_of(plain), of_set = options_of(set), of_bound = options_of(bound),
                  of_listener = options_of(listener), of_unusual = options_of(unusual);
    const int no_delay = option_if_any(listener, IPPROTO_TCP, TCP_NODELAY);
    CHECK(!(of_set == defaults) && !(of_listener == defaults) && !(of_unusual == defaults));
    return [=](bool) {
        CHECK(options_of(plain) == defaults);
        CHECK(options_of(set) == of_set);
        CHECK(options_of(bound) == of_bound);
        CHECK(options_of(listener) == of_listener);
        CHECK(options_of(unusual) == of_unusual);
        const int caller = call(own, IPPROTO_TCP);
        const int accepted = accept(listener, nullptr, nullptr);
        CHECK(accepted >= 0 && option_if_any(accepted, IPPROTO_TCP, TCP_NODELAY) == no_delay);
        hang_up(caller);
        hang_up(accepted);
    };
}

// Nobody is there. What was to be told of it has been; the name that it had for that is still to be seen.
Check failed_to_connect() {
    const int nobody = mptcp(AF_INET), fd = mptcp(AF_INET);
    const Name there = bind_somewhere(nobody);
    CHECK(!connect_to(fd, there) && errno == ECONNREFUSED);
    CHECK(test::option(fd, SOL_SOCKET, SO_ERROR) == 0 && (shown(fd) & ~POLLHUP) == POLLOUT);
    const Name own = name_of(fd);
    return [=](bool last) {
        CHECK(name_of(fd) == own);
        CHECK(is_mptcp(fd));
        CHECK((shown(fd) & ~POLLHUP) == POLLOUT);
        if (!last) return;
        CHECK(listen(nobody, 1) == 0 && connect_to(fd, there));
        const int accepted = accept(nobody, nullptr, nullptr);
        check_talking(fd, accepted);
    };
}

Check asleep_in_accept() {
    const int fd = mptcp(AF_INET);
    const Name own = bind_somewhere(fd);
    CHECK(listen(fd, 5) == 0);
    static std::atomic<int> accepted{0}, failed{0};
    std::thread([fd] {
        for (;;) {
            const int connection = accept(fd, nullptr, nullptr);
            ++(connection >= 0 ? accepted : failed);
            close(connection);
        }
    }).detach();
    static int called = 0;
    return [=](bool) {
        CHECK(accepted == called && failed == 0);
        const int caller = call(own, IPPROTO_MPTCP);
        ++called;
        for (int i = 0; i < 2000 && accepted != called; ++i) test::nap(5);
        CHECK(accepted == called);
        hang_up(caller);
    };
}

// Connections of clients that know plain TCP only, which have the listener's port. `reuse`: SO_REUSEADDR,
// without which the listener couldn't be bound beside them by itself.
template <int reuse>
Check with_connections() {
    const int fd = mptcp(AF_INET);
    test::set_option(fd, SOL_SOCKET, SO_REUSEADDR, reuse);
    const Name own = bind_somewhere(fd);
    CHECK(listen(fd, 9) == 0);
    const int caller = call(own, IPPROTO_TCP), accepted = accept(fd, nullptr, nullptr);
    const Name of_caller = name_of(caller);
    CHECK(write(caller, "waits", 5) == 5);
    return [=](bool) {
        CHECK(test::option(fd, SOL_SOCKET, SO_REUSEADDR) == reuse);
        CHECK(test::option(accepted, SOL_SOCKET, SO_REUSEADDR) == reuse);
        CHECK(test::option(accepted, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
        CHECK(name_of(accepted) == own && name_of(caller) == of_caller);
        char bytes[6] = "";
        CHECK(readable_soon(accepted) && read(accepted, bytes, sizeof bytes) == 5 &&
              std::string(bytes) == "waits");
        check_talking(caller, accepted);
        check_listening(fd, own, own, 9);
        CHECK(write(caller, "waits", 5) == 5);
    };
}

// The server closes first, so the kernel keeps the port for a minute (TIME_WAIT) when the program is killed.
Check closed_by_the_server() {
    const int fd = mptcp(AF_INET);
    const Name own = bind_somewhere(fd);
    CHECK(listen(fd, 2) == 0);
    return [=](bool) {
        for (const int protocol : {static_cast<int>(IPPROTO_TCP), static_cast<int>(IPPROTO_MPTCP)}) {
            const int caller = call(own, protocol), accepted = accept(fd, nullptr, nullptr);
            check_talking(caller, accepted);
            close(accepted);
            char byte = 0;
            CHECK(read(caller, &byte, 1) == 0);
            close(caller);
        }
        check_listening(fd, own, own, 2);
    };
}

// By SO_REUSEADDR at most one of them listens, by SO_REUSEPORT any number.
Check at_one_port() {
    const int first = mptcp(AF_INET), second = mptcp(AF_INET), several[] = {mptcp(AF_INET), mptcp(AF_INET)};
    for (const int fd : {first, second}) test::set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    const Name own = bind_somewhere(first);
    CHECK(bind_to(second, own) && listen(first, 1) == 0);
    for (const int fd : several) test::set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    const Name common = bind_somewhere(several[0]);
    CHECK(bind_to(several[1], common) && listen(several[0], 1) == 0 && listen(several[1], 2) == 0);
    return [=](bool) {
        check_listening(first, own, own, 1);
        check_bound(second, own);
        CHECK(listen(second, 1) != 0 && errno == EADDRINUSE);
        check_bound(several[0], common);
        check_bound(several[1], common);
        CHECK(backlog(several[0]) != 2 && (backlog(several[1]) == 2 || backlog(several[1]) == -1));
        CHECK(test::option(several[0], SOL_SOCKET, SO_ACCEPTCONN) == 1 &&
              test::option(several[0], SOL_SOCKET, SO_REUSEPORT) == 1);
        const int caller = call(common, IPPROTO_TCP);
        pollfd polled[] = {{several[0], POLLIN, 0}, {several[1], POLLIN, 0}};
        CHECK(poll(polled, 2, 10'000) == 1);
        hang_up(accept(several[polled[0].revents != 0 ? 0 : 1], nullptr, nullptr));
        hang_up(caller);
    };
}

bool same_description(int a, int b) {
    const int flags = fcntl(a, F_GETFL);
    CHECK(fcntl(a, F_SETFL, flags ^ O_NONBLOCK) == 0);
    const bool same = fcntl(b, F_GETFL) == (flags ^ O_NONBLOCK);
    CHECK(fcntl(a, F_SETFL, flags) == 0);
    return same;
}

// Its child serves who calls at a socket that both have, when it is told to.
Check shared() {
    const int fd = mptcp(AF_INET), twice = dup(fd), other = mptcp(AF_INET);
    const Name own = bind_somewhere(fd);
    CHECK(listen(fd, 3) == 0);
    int to_child[2];
    CHECK(twice >= 0 && pipe(to_child) == 0);
    const pid_t child = fork();
    if (child == 0) {
        for (char order = 0; read(to_child[0], &order, 1) == 1;) {
            const int accepted = accept(fd, nullptr, nullptr);
            char byte = 0;
            CHECK(accepted >= 0 && read(accepted, &byte, 1) == 1 && write(accepted, "k", 1) == 1);
            hang_up(accepted);
        }
        _exit(0);
    }
    CHECK(child > 0);
    return [=](bool last) {
        CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(twice, F_GETFD) == 0);
        CHECK(same_description(fd, twice) && !same_description(fd, other));
        check_listening(twice, own, own, 3);
        CHECK(write(to_child[1], "a", 1) == 1);
        const int caller = call(own, IPPROTO_MPTCP);
        char byte = 0;
        CHECK(write(caller, "c", 1) == 1 && read(caller, &byte, 1) == 1 && byte == 'k');
        hang_up(caller);
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

}  // namespace

int main() {
    test::serve({{"new", unbound<AF_INET>},
                 {"new, IPv6", unbound<AF_INET6>},
                 {"bound", bound<AF_INET>},
                 {"bound, IPv6", bound<AF_INET6>},
                 {"listening", listening<AF_INET>},
                 {"listening, IPv6", listening<AF_INET6>},
                 {"both families", both_families},
                 {"options", options<AF_INET>},
                 {"options, IPv6", options<AF_INET6>},
                 {"failed to connect", failed_to_connect},
                 {"asleep in accept", asleep_in_accept},
                 {"with connections", with_connections<1>},
                 {"with connections, without SO_REUSEADDR", with_connections<0>},
                 {"closed by the server", closed_by_the_server},
                 {"at one port", at_one_port},
                 {"shared", shared}});
}
