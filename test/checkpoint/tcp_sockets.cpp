// TCP and TCP over IPv6 inside the group: connections with data both ways, with full buffers, half closed,
// with peers that have gone or reset them, urgent data, listening sockets with connections that nobody has
// accepted yet, options.
// ci: user
// network: own (the ports that it has had must be free at its restart)
// rain: soak
// narrow: none
// heirs: none
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "support.h"

namespace {

using test::option;
using test::set_option;

enum class Kind { v4, v6, mapped };

// An address as text and as sockaddr, for one of the families.
struct Name {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    [[nodiscard]] std::string words() const {
        char text[INET6_ADDRSTRLEN + 8] = "";
        if (storage.ss_family == AF_INET) {
            sockaddr_in name{};
            std::memcpy(&name, &storage, sizeof name);
            inet_ntop(AF_INET, &name.sin_addr, text, sizeof text);
            return text + std::string(" ") + std::to_string(ntohs(name.sin_port));
        }
        sockaddr_in6 name{};
        std::memcpy(&name, &storage, sizeof name);
        inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text);
        return text + std::string(" ") + std::to_string(ntohs(name.sin6_port));
    }
};

Name name_of(int fd, bool peer) {
    Name name;
    auto* where = reinterpret_cast<sockaddr*>(&name.storage);
    CHECK((peer ? getpeername(fd, where, &name.length) : getsockname(fd, where, &name.length)) == 0);
    return name;
}

int listening(Kind kind, int backlog, bool reuse = true, int receive_buffer = 0) {
    const int fd = socket(kind == Kind::v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
    const int on = 1, off = 0;
    if (reuse) CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    if (receive_buffer) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (kind == Kind::v4) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        CHECK(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    } else {
        sockaddr_in6 name{};
        name.sin6_family = AF_INET6;
        if (kind == Kind::v6) name.sin6_addr = in6addr_loopback;
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        CHECK(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    }
    CHECK(listen(fd, backlog) == 0);
    return fd;
}

int connected(Kind kind, int listener) {
    const Name to = name_of(listener, false);
    if (kind == Kind::mapped) {
        sockaddr_in6 there{};
        std::memcpy(&there, &to.storage, sizeof there);
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = there.sin6_port;
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
        return fd;
    }
    const int fd = socket(to.storage.ss_family, SOCK_STREAM, 0);
    CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&to.storage), to.length) == 0);
    return fd;
}

struct Pair {
    int client = -1, server = -1;
    std::string client_own, client_peer, server_own, server_peer;
    bool has_peers = true;
};
std::vector<Pair> all;

Pair make_pair(Kind kind, int listener) {
    Pair pair;
    pair.client = connected(kind, listener);
    pair.server = accept(listener, nullptr, nullptr);
    CHECK(pair.server >= 0);
    pair.client_own = name_of(pair.client, false).words();
    pair.client_peer = name_of(pair.client, true).words();
    pair.server_own = name_of(pair.server, false).words();
    pair.server_peer = name_of(pair.server, true).words();
    all.push_back(pair);
    return pair;
}

void put(int fd, const std::string& text, int flags = 0) {
    CHECK(send(fd, text.data(), text.size(), flags) == static_cast<ssize_t>(text.size()));
}

std::string take(int fd, std::size_t most = 4096, int flags = 0) {
    std::string text(most, 0);
    const ssize_t got = recv(fd, text.data(), most, MSG_DONTWAIT | flags);
    if (got < 0) return errno == EAGAIN ? "<nothing>" : errno == ECONNRESET ? "<reset>" : "<error>";
    text.resize(static_cast<std::size_t>(got));
    return text;
}

char pattern(std::size_t at) {
    return static_cast<char>(at * 7 >> 3);
}

std::size_t fill(int fd) {
    std::size_t filled = 0;
    char block[10000];
    for (int tries = 0; tries < 30;) {
        for (std::size_t i = 0; i < sizeof block; ++i) block[i] = pattern(filled + i);
        const ssize_t sent = send(fd, block, sizeof block, MSG_DONTWAIT);
        if (sent > 0) {
            filled += static_cast<std::size_t>(sent);
            tries = 0;
        } else {
            ++tries;
            test::nap(1);
        }
    }
    return filled;
}

void tell(const char* what, std::size_t at, std::size_t filled) {
    char text[120];
    std::snprintf(text, sizeof text, "%s: byte %zu of %zu", what, at, filled);
    test::say(text);
}

void drain(int fd, std::size_t filled) {
    std::vector<char> block(100000);
    for (std::size_t at = 0; at < filled;) {
        pollfd polled{fd, POLLIN, 0};
        CHECK(poll(&polled, 1, 5000) == 1);
        const ssize_t got = recv(fd, block.data(), block.size(), MSG_DONTWAIT);
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; ++i, ++at) {
            if (block[static_cast<std::size_t>(i)] != pattern(at)) tell("wrong", at, filled);
            CHECK(block[static_cast<std::size_t>(i)] == pattern(at));
        }
    }
    CHECK(take(fd) == "<nothing>");
}

// The listening sockets that most connections come from; a connection has the name of its listener.
int v4() {
    static const int fd = listening(Kind::v4, 9);
    return fd;
}
int v6() {
    static const int fd = listening(Kind::v6, 5);
    return fd;
}

void check_text(int fd, const std::string& expected) {
    std::string text(expected.size(), 0);
    CHECK(recv(fd, text.data(), text.size(), MSG_WAITALL) == static_cast<ssize_t>(text.size()));
    CHECK(text == expected);
}

// Reads all that comes, to the end.
void until_end(int fd, std::size_t expected, const char* which) {
    std::vector<char> block(100000);
    std::size_t at = 0;
    for (;;) {
        pollfd waits{fd, POLLIN, 0};
        CHECK(poll(&waits, 1, 5000) == 1);
        const ssize_t got = recv(fd, block.data(), block.size(), MSG_DONTWAIT);
        CHECK(got >= 0);
        if (got == 0) break;
        if (block[0] != pattern(at)) tell("wrong", at, expected);
        for (ssize_t i = 0; i < got; ++i, ++at) CHECK(block[static_cast<std::size_t>(i)] == pattern(at));
    }
    if (at != expected) tell(which, at, expected);
    CHECK(at == expected);
}

void check_ended(pid_t child, int expected) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == expected);
}

test::Check listeners() {
    const int dual = listening(Kind::mapped, 5), strict = listening(Kind::v4, 3, false);
    std::vector<Pair> plain;
    for (const auto& [kind, listener] :
         {std::pair{Kind::v4, v4()}, {Kind::v6, v6()}, {Kind::mapped, dual}, {Kind::v4, strict}}) {
        plain.push_back(make_pair(kind, listener));
        put(plain.back().client, "to the server");
        put(plain.back().server, "to the client");
    }
    return [=](bool last) {
        for (const Pair& each : plain) {
            int count = 0;
            CHECK(ioctl(each.server, FIONREAD, &count) == 0 && count == 13);
        }
        for (const auto& [kind, listener] :
             {std::pair{Kind::v4, v4()}, {Kind::v6, v6()}, {Kind::mapped, dual}}) {
            const int more = connected(kind, listener), accepted = accept(listener, nullptr, nullptr);
            CHECK(accepted >= 0);
            put(more, "more");
            check_text(accepted, "more");
            close(more);
            close(accepted);
        }
        tcp_info info{};
        socklen_t length = sizeof info;
        CHECK(getsockopt(v4(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_sacked == 9);
        CHECK(option(v4(), SOL_SOCKET, SO_REUSEADDR) == 1 && option(strict, SOL_SOCKET, SO_REUSEADDR) == 0);
        if (!last) return;
        for (const Pair& each : plain) {
            CHECK(take(each.server) == "to the server" && take(each.client) == "to the client");
            put(each.client, "again");
            check_text(each.server, "again");
        }
    };
}

test::Check full_buffers() {
    const int tight = listening(Kind::v4, 3, true, 20000);
    const Pair full = make_pair(Kind::v4, v4()), narrow = make_pair(Kind::v4, tight);
    const std::size_t forth = fill(full.client), back = fill(full.server), into_narrow = fill(narrow.client);
    const int narrow_buffer = option(narrow.server, SOL_SOCKET, SO_RCVBUF);
    return [=](bool last) {
        CHECK(option(full.client, SOL_SOCKET, SO_REUSEADDR) == 0);
        CHECK(option(narrow.server, SOL_SOCKET, SO_RCVBUF) >= narrow_buffer);
        if (!last) return;
        drain(full.server, forth);
        drain(full.client, back);
        drain(narrow.server, into_narrow);
    };
}

test::Check shut_down() {
    const Pair client_done = make_pair(Kind::v4, v4()), server_done = make_pair(Kind::v6, v6());
    put(client_done.client, "last words");
    CHECK(shutdown(client_done.client, SHUT_WR) == 0);
    put(server_done.server, "farewell");
    CHECK(shutdown(server_done.server, SHUT_WR) == 0);
    const Pair full_done = make_pair(Kind::v4, v4());
    const std::size_t before_end = fill(full_done.client);
    CHECK(shutdown(full_done.client, SHUT_WR) == 0);
    return [=](bool last) {
        pollfd polled{client_done.server, POLLRDHUP, 0};
        CHECK(poll(&polled, 1, 0) == 1 && (polled.revents & POLLRDHUP) != 0);
        if (!last) return;
        CHECK(take(client_done.server) == "last words" && take(client_done.server).empty());
        CHECK(send(client_done.client, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        put(client_done.server, "still");
        check_text(client_done.client, "still");
        CHECK(take(server_done.client) == "farewell" && take(server_done.client).empty());
        put(server_done.client, "thanks");
        check_text(server_done.server, "thanks");
        until_end(full_done.server, before_end, "ended, full");
    };
}

test::Check both_shut_down() {
    const Pair done = make_pair(Kind::v4, v4());
    all.back().has_peers = false;  // nobody is at the other end any more
    put(done.client, "one");
    CHECK(shutdown(done.client, SHUT_WR) == 0);
    put(done.server, "two");
    CHECK(shutdown(done.server, SHUT_WR) == 0);
    return [=](bool last) {
        if (!last) return;
        CHECK(take(done.server) == "one" && take(done.client) == "two");
        CHECK(take(done.server).empty() && take(done.client).empty());
    };
}

test::Check peers_gone() {
    const auto lone = [] {
        const Pair pair = make_pair(Kind::v4, v4());
        all.pop_back();
        return pair;
    };
    const Pair gone = lone(), reset = lone(), unfinished = lone();
    put(gone.client, "rest");
    close(gone.client);
    put(reset.client, "lost or not");
    put(reset.server, "never read");
    test::nap(20);
    close(reset.client);  // with something unread: a reset
    const std::size_t unfinished_bytes = fill(unfinished.client);
    close(unfinished.client);  // with more than there is room for
    return [=](bool last) {
        if (!last) return;
        CHECK(take(gone.server) == "rest" && take(gone.server).empty());
        until_end(unfinished.server, unfinished_bytes, "ended, unfinished");
        CHECK(take(reset.server) == "lost or not" && take(reset.server) == "<reset>");
    };
}

// SO_PEEK_OFF, without which a checkpoint is refused: Linux 6.9.
bool kernel_shows_behind_an_urgent_byte() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0), offset = 0;
    const bool shows = setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset) == 0;
    close(fd);
    return shows;
}

test::Check urgent_data() {
    if (!kernel_shows_behind_an_urgent_byte()) return [](bool) {};
    const Pair urgent = make_pair(Kind::v4, v4()), among = make_pair(Kind::v4, v4()),
               seen = make_pair(Kind::v4, v4());
    for (const Pair& each : {urgent, among, seen}) {
        if (each.server == among.server) set_option(each.server, SOL_SOCKET, SO_OOBINLINE, 1);
        put(each.client, "before");
        put(each.client, "!", MSG_OOB);
        put(each.client, "after");
    }
    test::nap(20);
    CHECK(take(seen.server, 1, MSG_OOB) == "!");
    return [=](bool last) {
        CHECK(option(among.server, SOL_SOCKET, SO_OOBINLINE) == 1);
        if (!last) return;
        CHECK(take(urgent.server, 1, MSG_OOB) == "!" && take(urgent.server) == "before");
        int at_mark = 0;
        CHECK(ioctl(urgent.server, SIOCATMARK, &at_mark) == 0 && take(urgent.server) == "after");
        CHECK(take(among.server) == "before" && take(among.server) == "!after");
        CHECK(take(seen.server) == "before" && take(seen.server) == "after");
    };
}

test::Check not_accepted_yet() {
    const int busy = listening(Kind::v4, 4);
    const int waiting = connected(Kind::v4, busy), finished = connected(Kind::v4, busy);
    CHECK(shutdown(finished, SHUT_WR) == 0);
    const std::string waiting_own = name_of(waiting, false).words();
    return [=](bool last) {
        CHECK(name_of(waiting, false).words() == waiting_own);
        if (!last) return;
        bool first_is_waiting = false;
        for (int i = 0; i < 2; ++i) {
            const int fd = accept(busy, nullptr, nullptr);
            CHECK(fd >= 0);
            const bool is_waiting = name_of(fd, true).words() == waiting_own;
            if (i == 1) CHECK(is_waiting != first_is_waiting);
            first_is_waiting = is_waiting;
            put(fd, "hello");
            check_text(is_waiting ? waiting : finished, "hello");
            CHECK(take(fd) == (is_waiting ? "<nothing>" : ""));
        }
    };
}

struct Option {
    int level, name, value;
};

test::Check options() {
    const Pair tuned = make_pair(Kind::v6, v6());
    const std::vector<Option> wanted{{IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
                                     {IPPROTO_TCP, TCP_KEEPIDLE, 77}, {IPPROTO_TCP, TCP_KEEPINTVL, 7},
                                     {IPPROTO_TCP, TCP_KEEPCNT, 3},   {IPPROTO_TCP, TCP_USER_TIMEOUT, 12345}};
    for (const auto& [level, name, value] : wanted) set_option(tuned.client, level, name, value);
    set_option(tuned.client, SOL_SOCKET, SO_RCVBUF, 50000);
    set_option(tuned.client, SOL_SOCKET, SO_SNDBUF, 60000);
    set_option(tuned.server, IPPROTO_TCP, TCP_CORK, 1);
    put(tuned.server, "corked");
    const linger lingering{1, 9};
    CHECK(setsockopt(tuned.server, SOL_SOCKET, SO_LINGER, &lingering, sizeof lingering) == 0);
    CHECK(setsockopt(tuned.server, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
    const int buffers[2] = {option(tuned.client, SOL_SOCKET, SO_RCVBUF),
                            option(tuned.client, SOL_SOCKET, SO_SNDBUF)};
    CHECK(fcntl(tuned.server, F_SETFL, O_NONBLOCK) == 0);
    return [=](bool last) {
        for (const auto& [level, name, value] : wanted) CHECK(option(tuned.client, level, name) == value);
        CHECK(option(tuned.server, IPPROTO_TCP, TCP_NODELAY) == 0);
        CHECK(option(tuned.server, IPPROTO_TCP, TCP_CORK) == 1);
        CHECK(option(tuned.client, SOL_SOCKET, SO_RCVBUF) == buffers[0] &&
              option(tuned.client, SOL_SOCKET, SO_SNDBUF) == buffers[1]);
        linger now{};
        socklen_t length = sizeof now;
        CHECK(getsockopt(tuned.server, SOL_SOCKET, SO_LINGER, &now, &length) == 0 && now.l_onoff == 1 &&
              now.l_linger == 9);
        char congestion[16] = "";
        length = sizeof congestion;
        CHECK(getsockopt(tuned.server, IPPROTO_TCP, TCP_CONGESTION, congestion, &length) == 0 &&
              std::strcmp(congestion, "reno") == 0);
        CHECK((fcntl(tuned.server, F_GETFL) & O_NONBLOCK) != 0);
        if (!last) return;
        set_option(tuned.server, IPPROTO_TCP, TCP_CORK, 0);
        check_text(tuned.client, "corked");
    };
}

test::Check never_connected() {
    const int unbound = socket(AF_INET, SOCK_STREAM, 0), bound = socket(AF_INET6, SOCK_STREAM, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    CHECK(bind(bound, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0);
    const std::string bound_name = name_of(bound, false).words();
    return [=](bool) {
        CHECK(name_of(bound, false).words() == bound_name);
        CHECK(send(unbound, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    };
}

test::Check asleep_in_accept() {
    const int sleepy = listening(Kind::v4, 3);
    const pid_t server = fork();
    if (server == 0)
        for (;;) {
            const int fd = accept(sleepy, nullptr, nullptr);
            CHECK(fd >= 0);
            char text[64];
            const ssize_t got = recv(fd, text, sizeof text, 0);
            CHECK(got >= 0);
            if (got == 0) _exit(7);
            CHECK(send(fd, text, static_cast<std::size_t>(got), 0) == got);
            close(fd);
        }
    return [=](bool last) {
        const int customer = connected(Kind::v4, sleepy);
        put(customer, "echo");
        check_text(customer, "echo");
        close(customer);
        if (!last) return;
        close(connected(Kind::v4, sleepy));
        check_ended(server, 7);
    };
}

test::Check asleep_in_send() {
    const Pair stuffed = make_pair(Kind::v4, v4());
    constexpr std::size_t much = 9000000;
    const pid_t writer = fork();
    if (writer == 0) {
        close(stuffed.server);
        std::vector<char> bytes(much);
        for (std::size_t i = 0; i < much; ++i) bytes[i] = pattern(i);
        CHECK(send(stuffed.client, bytes.data(), much, 0) == static_cast<ssize_t>(much));
        _exit(5);
    }
    return [=](bool last) {
        if (!last) return;
        std::vector<char> block(100000);
        for (std::size_t at = 0; at < much;) {
            const ssize_t got = recv(stuffed.server, block.data(), block.size(), 0);
            CHECK(got > 0);
            for (ssize_t i = 0; i < got; ++i, ++at) CHECK(block[static_cast<std::size_t>(i)] == pattern(at));
        }
        check_ended(writer, 5);
    };
}

test::Check asleep_in_recv() {
    const Pair lazy = make_pair(Kind::v6, v6());
    const pid_t reader = fork();
    if (reader == 0) {
        close(lazy.client);
        check_text(lazy.server, "complete");
        _exit(6);
    }
    put(lazy.client, "comp");
    test::nap(100);
    return [=](bool last) {
        if (!last) return;
        put(lazy.client, "lete");
        check_ended(reader, 6);
    };
}

void check_name(int fd, bool peer, const std::string& before) {
    const std::string now = name_of(fd, peer).words();
    if (now != before)
        std::fprintf(stderr, "%s of descriptor %d was %s, is %s\n", peer ? "peer" : "name", fd,
                     before.c_str(), now.c_str());
    CHECK(now == before);
}

// Of all connections that the other cases make; checked before these read the last of them.
test::Check names() {
    return [](bool) {
        for (const Pair& each : all) {
            check_name(each.client, false, each.client_own);
            check_name(each.server, false, each.server_own);
            if (!each.has_peers) continue;
            check_name(each.client, true, each.client_peer);
            check_name(each.server, true, each.server_peer);
        }
    };
}

}  // namespace

int main() {
    test::serve({{"names of both ends", names},
                 {"listeners, and connections with data both ways", listeners},
                 {"full buffers", full_buffers},
                 {"shut down one way", shut_down},
                 {"shut down both ways", both_shut_down},
                 {"peers that have gone", peers_gone},
                 {"urgent data", urgent_data},
                 {"connections not accepted yet", not_accepted_yet},
                 {"options", options},
                 {"never connected", never_connected},
                 {"a server asleep in accept", asleep_in_accept},
                 {"a writer asleep in send", asleep_in_send},
                 {"a reader asleep in recv", asleep_in_recv}});
}
