// Unix sockets of every kind: pairs, connections by path (absolute, relative, removed) and by abstract name,
// what is on its way both ways, descriptors and credentials in flight, halves shut down, peers that have
// gone, listening sockets with connections that nobody has accepted yet, datagrams with and without a
// connection, options.
// ci: exact user
// rain: soak
// narrow: exact user
// heirs: none
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "support.h"

namespace {

sockaddr_un address(const std::string& name, socklen_t& length) {
    sockaddr_un result{};
    result.sun_family = AF_UNIX;
    std::memcpy(result.sun_path, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (name[0] != 0));
    return result;
}

int bound(int style, const std::string& name) {
    const int fd = socket(AF_UNIX, style, 0);
    socklen_t length = 0;
    const sockaddr_un to = address(name, length);
    if (name[0] != 0) unlink(name.c_str());
    CHECK(fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&to), length) == 0);
    return fd;
}

void connect_to(int fd, const std::string& name) {
    socklen_t length = 0;
    const sockaddr_un to = address(name, length);
    CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&to), length) == 0);
}

int connected(int style, const std::string& name) {
    const int fd = socket(AF_UNIX, style, 0);
    connect_to(fd, name);
    return fd;
}

int listening(int style, const std::string& name, int backlog) {
    const int fd = bound(style, name);
    CHECK(listen(fd, backlog) == 0);
    return fd;
}

// The name without the family; "" for none, "?" for no peer.
std::string name_of(int fd, bool peer) {
    sockaddr_un found{};
    socklen_t length = sizeof found;
    auto* where = reinterpret_cast<sockaddr*>(&found);
    if ((peer ? getpeername(fd, where, &length) : getsockname(fd, where, &length)) != 0) return "?";
    if (length <= sizeof(sa_family_t)) return "";
    if (found.sun_path[0] != 0) return found.sun_path;
    return {found.sun_path, length - sizeof(sa_family_t)};
}

void put(int fd, const std::string& text) {
    CHECK(send(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
}

std::string take(int fd, std::size_t most = 4096) {
    std::string text(most, 0);
    const ssize_t got = recv(fd, text.data(), most, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN ? "<nothing>" : errno == ECONNRESET ? "<reset>" : "<error>";
    text.resize(static_cast<std::size_t>(got));
    return text;
}

void put_with(int fd, const std::string& text, const std::vector<int>& rights) {
    iovec part{const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(rights.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(rights.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), rights.data(), rights.size() * sizeof(int));
    CHECK(sendmsg(fd, &message, 0) == static_cast<ssize_t>(text.size()));
}

struct Taken {
    std::string text;
    std::vector<int> rights;
    ucred sender{};
    std::string from;
};

Taken take_with(int fd, std::size_t most = 4096) {
    Taken taken;
    std::string text(most, 0);
    iovec part{text.data(), most};
    alignas(cmsghdr) char control[512];
    sockaddr_un from{};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    CHECK(got >= 0);
    text.resize(static_cast<std::size_t>(got));
    taken.text = text;
    if (message.msg_namelen > sizeof(sa_family_t))
        taken.from.assign(from.sun_path, from.sun_path[0] ? std::strlen(from.sun_path)
                                                          : message.msg_namelen - sizeof(sa_family_t));
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_type == SCM_CREDENTIALS)
            std::memcpy(&taken.sender, CMSG_DATA(header), sizeof(ucred));
        if (header->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t at = CMSG_LEN(0); at < header->cmsg_len; at += sizeof(int)) {
            int right = -1;
            std::memcpy(&right, reinterpret_cast<char*>(header) + at, sizeof right);
            taken.rights.push_back(right);
        }
    }
    return taken;
}

template <class T>
T option(int fd, int name) {
    T value{};
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0);
    return value;
}

void set(int fd, int name, int value) {
    CHECK(setsockopt(fd, SOL_SOCKET, name, &value, sizeof value) == 0);
}

short events(int fd) {
    pollfd polled{fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    poll(&polled, 1, 0);
    return polled.revents;
}

using Ends = std::array<int, 2>;

Ends pair_of(int style) {
    Ends ends{};
    CHECK(socketpair(AF_UNIX, style, 0, ends.data()) == 0);
    return ends;
}

const std::string abstract = std::string(1, 0) + "cairn-test-" + std::to_string(getpid());

// Whether the kernel's process ids are those that the program knows.
bool exact() {
    const char* mode = std::getenv("CAIRN_TEST_MODE");
    return geteuid() == 0 && mode != nullptr && std::strcmp(mode, "exact") == 0;
}

struct Connection {
    int style;
    std::string name;
    int listener, client, server;

    Connection(int wanted, std::string called)
        : style(wanted),
          name(std::move(called)),
          listener(listening(style, name, 5)),
          client(connected(style, name)),
          server(accept(listener, nullptr, nullptr)) {
        CHECK(server >= 0);
        put(client, "to the server");
        put(server, "to the");
        put(server, " client");
    }
    void check() const {
        CHECK(name_of(client, true) == name && name_of(server, false) == name);
        CHECK(name_of(client, false).empty() && name_of(server, true).empty());
        CHECK(name_of(listener, false) == name && option<int>(listener, SO_ACCEPTCONN) == 1);
        int count = 0;
        CHECK(ioctl(server, FIONREAD, &count) == 0 && count == 13);
        // Who connects now is served.
        const int more = connected(style, name);
        const int accepted = accept(listener, nullptr, nullptr);
        CHECK(accepted >= 0);
        put(more, "more");
        CHECK(take(accepted) == "more");
        close(more);
        close(accepted);
    }
    void finish() const {
        CHECK(take(server) == "to the server");
        CHECK(take(client) == (style == SOCK_STREAM ? "to the client" : "to the"));
        if (style == SOCK_SEQPACKET) CHECK(take(client) == " client");
        close(server);
        CHECK(take(client).empty());
    }
};

test::Check connections() {
    char cwd[200];
    CHECK(getcwd(cwd, sizeof cwd) != nullptr);
    const std::string absolute = std::string(cwd) + "/absolute.socket";
    std::vector<Connection> all;
    for (const int style : {SOCK_STREAM, SOCK_SEQPACKET})
        for (const std::string& name : {absolute, std::string("relative.socket"), abstract})
            all.emplace_back(style, name + (style == SOCK_STREAM ? ".s" : ".p"));
    CHECK(chmod((absolute + ".s").c_str(), 0640) == 0);
    // A client with a name of its own.
    const int own_name = bound(SOCK_STREAM, "client.socket");
    test::set_option(own_name, SOL_SOCKET, SO_REUSEADDR, 1);  // does nothing, and is remembered
    connect_to(own_name, absolute + ".s");
    const int for_own_name = accept(all[0].listener, nullptr, nullptr);
    CHECK(for_own_name >= 0);
    return [=, self = getpid()](bool last) {
        for (const Connection& each : all) each.check();
        struct stat status {};
        CHECK(stat((absolute + ".s").c_str(), &status) == 0 && (status.st_mode & 07777) == 0640);
        CHECK(name_of(own_name, false) == "client.socket" && name_of(for_own_name, true) == "client.socket");
        if (exact()) CHECK(option<ucred>(all[0].client, SO_PEERCRED).pid == self);
        if (!last) return;
        for (const Connection& each : all) each.finish();
    };
}

test::Check listener_gone() {
    const int listener = listening(SOCK_STREAM, "gone.socket", 1);
    const int client = connected(SOCK_STREAM, "gone.socket");
    const int server = accept(listener, nullptr, nullptr);
    close(listener);
    unlink("gone.socket");
    put(client, "still here");
    return [=](bool last) {
        struct stat status {};
        CHECK(stat("gone.socket", &status) != 0);
        CHECK(name_of(client, true) == "gone.socket" && name_of(server, false) == "gone.socket");
        if (last) CHECK(take(server) == "still here");
    };
}

test::Check full_both_ways() {
    const Ends full = pair_of(SOCK_STREAM | SOCK_NONBLOCK);
    std::array<std::size_t, 2> filled{};
    for (unsigned way = 0; way < 2; ++way)
        for (char block[1000];;) {
            for (std::size_t i = 0; i < sizeof block; ++i)
                block[i] = static_cast<char>((filled[way] + i) * 7 >> 3);
            const ssize_t sent = send(full[way], block, sizeof block, MSG_DONTWAIT);
            if (sent <= 0) break;
            filled[way] += static_cast<std::size_t>(sent);
        }
    set(full[0], SO_PEEK_OFF, 5);
    set(full[0], SO_PRIORITY, 3);
    return [=](bool last) {
        CHECK(option<int>(full[0], SO_PEEK_OFF) == 5 && option<int>(full[0], SO_PRIORITY) == 3);
        CHECK((fcntl(full[1], F_GETFL) & O_NONBLOCK) != 0);
        if (!last) return;
        for (unsigned way = 0; way < 2; ++way) {
            std::size_t at = 0;
            char block[5000];
            for (;;) {
                const ssize_t got = recv(full[1 - way], block, sizeof block, MSG_DONTWAIT);
                if (got <= 0) break;
                for (ssize_t i = 0; i < got; ++i, ++at) CHECK(block[i] == static_cast<char>(at * 7 >> 3));
            }
            CHECK(at == filled[way]);
        }
    };
}

// A pipe's end, a socket with something in it; plain bytes before and after.
test::Check descriptors_in_flight() {
    const Ends carrier = pair_of(SOCK_STREAM), packets = pair_of(SOCK_SEQPACKET);
    const Ends nested = pair_of(SOCK_STREAM);
    Ends pipe_ends{};
    CHECK(pipe(pipe_ends.data()) == 0);
    CHECK(write(pipe_ends[1], "piped", 5) == 5);
    put(nested[1], "nested");
    put_with(nested[1], "+", {pipe_ends[1]});
    put(carrier[0], "before");
    put_with(carrier[0], "with", {pipe_ends[0], nested[0]});
    put(carrier[0], "after");
    put_with(carrier[0], "again", {pipe_ends[0]});
    put_with(packets[0], "packet", {nested[0]});
    put(packets[0], "plain");
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    close(nested[0]);
    return [=](bool last) {
        if (!last) return;
        // Descriptors come with the bytes that they were sent with, and not before.
        CHECK(take_with(carrier[1], 6).text == "before");
        Taken taken = take_with(carrier[1], 4);
        CHECK(taken.text == "with" && taken.rights.size() == 2);
        char text[64];
        CHECK(read(taken.rights[0], text, sizeof text) == 5 && std::memcmp(text, "piped", 5) == 0);
        const int inner = taken.rights[1];
        taken = take_with(carrier[1], 5);
        CHECK(taken.text == "after" && taken.rights.empty());
        taken = take_with(carrier[1]);
        CHECK(taken.text == "again" && taken.rights.size() == 1);
        CHECK(take_with(inner, 6).text == "nested");
        const Taken end = take_with(inner);
        CHECK(end.text == "+" && end.rights.size() == 1 && write(end.rights[0], "through", 7) == 7);
        CHECK(read(taken.rights[0], text, sizeof text) == 7);
        taken = take_with(packets[1]);
        CHECK(taken.text == "packet" && taken.rights.size() == 1);
        put(taken.rights[0], "back");
        CHECK(take(nested[1]) == "back" && take(packets[1]) == "plain");
    };
}

test::Check credentials() {
    const Ends passing = pair_of(SOCK_DGRAM);
    set(passing[1], SO_PASSCRED, 1);
    put(passing[0], "who am I");
    return [=, self = getpid()](bool last) {
        CHECK(option<int>(passing[1], SO_PASSCRED) == 1 && option<int>(passing[0], SO_PASSCRED) == 0);
        CHECK(option<ucred>(passing[0], SO_PEERCRED).uid == geteuid());
        if (!last) return;
        const Taken taken = take_with(passing[1]);
        CHECK(taken.text == "who am I" && taken.sender.uid == geteuid() && taken.sender.gid == getegid());
        if (exact()) CHECK(taken.sender.pid == self);
    };
}

test::Check half_shut_down() {
    const Ends half = pair_of(SOCK_STREAM);
    put(half[0], "last words");
    CHECK(shutdown(half[0], SHUT_WR) == 0);
    put(half[1], "one way");
    set(half[1], SO_RCVBUF, 30000);
    set(half[1], SO_SNDBUF, 40000);
    const int receive_buffer = option<int>(half[1], SO_RCVBUF), send_buffer = option<int>(half[1], SO_SNDBUF);
    const timeval timeout{3, 250000};
    CHECK(setsockopt(half[1], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
    const timeval rounded = option<timeval>(half[1], SO_RCVTIMEO);  // to the kernel's ticks
    return [=](bool last) {
        CHECK(option<int>(half[1], SO_RCVBUF) == receive_buffer &&
              option<int>(half[1], SO_SNDBUF) == send_buffer);
        CHECK(option<timeval>(half[1], SO_RCVTIMEO).tv_usec == rounded.tv_usec);
        CHECK((events(half[1]) & POLLRDHUP) != 0 && (events(half[1]) & POLLHUP) == 0);
        if (!last) return;
        CHECK(take(half[1]) == "last words" && take(half[1]).empty() && take(half[0]) == "one way");
        CHECK(send(half[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    };
}

test::Check peers_gone() {
    const Ends gone = pair_of(SOCK_STREAM), unread = pair_of(SOCK_STREAM), quiet = pair_of(SOCK_SEQPACKET);
    put(gone[0], "rest");
    close(gone[0]);
    put(unread[1], "never read");
    close(unread[0]);
    put(quiet[0], "");
    put(quiet[0], "x");
    put(quiet[0], "");
    close(quiet[0]);
    return [=](bool last) {
        CHECK((events(unread[1]) & POLLERR) != 0 && (events(gone[1]) & (POLLHUP | POLLRDHUP)) != 0);
        if (!last) return;
        CHECK(take(gone[1]) == "rest" && take(gone[1]).empty());
        CHECK(send(gone[1], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        CHECK(take(unread[1]) == "<reset>" && take(unread[1]).empty());
        CHECK(take(quiet[1]).empty() && take(quiet[1]) == "x" && take(quiet[1]).empty());
    };
}

// Two wait, one of them named.
test::Check not_accepted_yet() {
    const int busy = listening(SOCK_STREAM, "busy.socket", 7);
    const int waiting = connected(SOCK_STREAM, "busy.socket");
    const int named_waiting = bound(SOCK_STREAM, abstract + "-waiting");
    connect_to(named_waiting, "busy.socket");
    CHECK(shutdown(named_waiting, SHUT_WR) == 0);
    return [=](bool last) {
        CHECK(name_of(waiting, true) == "busy.socket");
        if (!last) return;
        const int first = accept(busy, nullptr, nullptr);
        put(waiting, "hello");
        CHECK(first >= 0 && take(first) == "hello" && name_of(first, false) == "busy.socket");
        const int second = accept(busy, nullptr, nullptr);
        CHECK(second >= 0 && name_of(second, true) == abstract + "-waiting" && take(second).empty());
        put(second, "welcome");
        CHECK(take(named_waiting) == "welcome");
        CHECK(fcntl(busy, F_SETFL, O_NONBLOCK) == 0 && accept(busy, nullptr, nullptr) == -1 &&
              errno == EAGAIN);
    };
}

// To a bound one from named, unnamed and vanished senders; to one whose path was removed.
test::Check datagrams() {
    const int letters = bound(SOCK_DGRAM, "letters.socket");
    const int by_name = bound(SOCK_DGRAM, abstract + "-sender");
    const int removed = bound(SOCK_DGRAM, "removed.socket");
    const int writer = connected(SOCK_DGRAM, "letters.socket");
    connect_to(by_name, "letters.socket");
    put(by_name, "named");
    put(writer, "unnamed");
    const int vanished = bound(SOCK_DGRAM, abstract + "-vanished");
    connect_to(vanished, "letters.socket");
    put(vanished, "vanished");
    close(vanished);
    put(connected(SOCK_DGRAM, "removed.socket"), "no name");
    unlink("removed.socket");
    return [=](bool last) {
        struct stat status {};
        CHECK(stat("removed.socket", &status) != 0 && name_of(removed, false) == "removed.socket");
        CHECK(name_of(writer, true) == "letters.socket" && name_of(by_name, false) == abstract + "-sender");
        if (!last) return;
        Taken taken = take_with(letters);
        CHECK(taken.text == "named" && taken.from == abstract + "-sender");
        taken = take_with(letters);
        CHECK(taken.text == "unnamed" && taken.from.empty());
        taken = take_with(letters);
        CHECK(taken.text == "vanished" && taken.from == abstract + "-vanished");
        CHECK(take(letters) == "<nothing>" && take(removed) == "no name");
        put(writer, "x");
        CHECK(take(letters) == "x");
    };
}

test::Check automatic_name() {
    const int automatic = socket(AF_UNIX, SOCK_DGRAM, 0);
    sockaddr_un family{};
    family.sun_family = AF_UNIX;
    CHECK(bind(automatic, reinterpret_cast<sockaddr*>(&family), sizeof(sa_family_t)) == 0);
    const std::string name = name_of(automatic, false);
    CHECK(name.size() == 6);
    return [=](bool) { CHECK(name_of(automatic, false) == name); };
}

// More is in it than an unconnected one takes.
test::Check datagrams_connected() {
    const int left = bound(SOCK_DGRAM, abstract + "-left"), right = bound(SOCK_DGRAM, abstract + "-right");
    connect_to(left, abstract + "-right");
    put(left, "early");
    connect_to(right, abstract + "-left");
    for (int i = 0; i < 20; ++i) put(left, "letter " + std::to_string(i));
    return [=](bool last) {
        CHECK(name_of(left, true) == abstract + "-right" && name_of(right, true) == abstract + "-left");
        if (!last) return;
        CHECK(take(right) == "early");
        for (int i = 0; i < 20; ++i) CHECK(take(right) == "letter " + std::to_string(i));
        put(right, "answer");
        CHECK(take(left) == "answer");
    };
}

test::Check never_bound() {
    const int stream = socket(AF_UNIX, SOCK_STREAM, 0), letters = socket(AF_UNIX, SOCK_DGRAM, 0);
    return [=](bool) { CHECK((events(stream) & POLLHUP) != 0 && name_of(letters, false).empty()); };
}

// The file has another name than bind gave it, as supervisord (link) and HAProxy (rename) do.
test::Check another_name() {
    const int renamed = listening(SOCK_STREAM, "early.1", 3), linked = listening(SOCK_STREAM, "early.2", 3),
              letters = bound(SOCK_DGRAM, "early.3");
    CHECK(rename("early.1", "known.1") == 0 && chmod("known.1", 0640) == 0);
    CHECK(link("early.2", "known.2") == 0 && unlink("early.2") == 0);
    CHECK(rename("early.3", "known.3") == 0);
    const int customer = connected(SOCK_STREAM, "known.1"), served = accept(renamed, nullptr, nullptr);
    return [=](bool) {
        struct stat status {};
        CHECK(stat("known.1", &status) == 0 && S_ISSOCK(status.st_mode) && (status.st_mode & 0777) == 0640);
        CHECK(access("early.1", F_OK) != 0 && access("early.2", F_OK) != 0 && access("early.3", F_OK) != 0);
        CHECK(name_of(renamed, false) == "early.1" && name_of(customer, true) == "early.1");
        put(customer, "x");
        char one = 0;
        CHECK(recv(served, &one, 1, 0) == 1 && one == 'x');
        const int fresh = connected(SOCK_STREAM, "known.1"), other = accept(renamed, nullptr, nullptr);
        CHECK(other >= 0 && close(fresh) == 0 && close(other) == 0);
        const int second = connected(SOCK_STREAM, "known.2"), first = accept(linked, nullptr, nullptr);
        CHECK(first >= 0 && close(second) == 0 && close(first) == 0);
        const int sender = connected(SOCK_DGRAM, "known.3");
        put(sender, "y");
        CHECK(recv(letters, &one, 1, 0) == 1 && one == 'y' && close(sender) == 0);
    };
}

// Root has made it in a folder of its own and given it away, to whom it belongs now (dovecot).
test::Check given_away() {
    if (getuid() != 0) return [](bool) {};
    constexpr uid_t other = 65534;
    CHECK(mkdir("roots", 0755) == 0);
    const int listener = listening(SOCK_STREAM, "roots/socket", 3);
    if (chown("roots/socket", other, other) != 0) {
        CHECK(errno == EINVAL);  // in a user namespace that has no such user
        CHECK(close(listener) == 0 && unlink("roots/socket") == 0);
        return [](bool) {};
    }
    const pid_t server = fork();
    if (server == 0) {
        for (int fd = 3; fd < 200; ++fd)
            if (fd != listener) close(fd);
        CHECK(setresgid(other, other, other) == 0 && setresuid(other, other, other) == 0);
        for (;;) pause();
    }
    return [=](bool last) {
        struct stat status {};
        CHECK(stat("roots/socket", &status) == 0 && status.st_uid == other);
        const int customer = connected(SOCK_STREAM, "roots/socket"),
                  served = accept(listener, nullptr, nullptr);
        CHECK(served >= 0 && close(customer) == 0 && close(served) == 0);
        if (last) CHECK(kill(server, SIGKILL) == 0);
    };
}

// Asleep in accept, and after a customer was served in recv.
test::Check sleeping_server() {
    const int sleepy = listening(SOCK_STREAM, "sleepy.socket", 3);
    const Ends asked = pair_of(SOCK_STREAM);
    const pid_t server = fork();
    if (server == 0) {
        for (int fd = 3; fd < 200; ++fd)
            if (fd != sleepy && fd != asked[0]) close(fd);
        for (;;) {
            const int fd = accept(sleepy, nullptr, nullptr);
            CHECK(fd >= 0);
            char text[64];
            const ssize_t got = recv(fd, text, sizeof text, 0);
            CHECK(got >= 0);
            if (got == 0) _exit(7);
            CHECK(send(fd, text, static_cast<std::size_t>(got), 0) == got);
            CHECK(recv(asked[0], text, 1, 0) == 1);
            close(fd);
        }
    }
    close(asked[0]);
    test::nap(30);
    return [=](bool last) {
        const int customer = connected(SOCK_STREAM, "sleepy.socket");
        put(customer, "echo");
        char echo[8];
        CHECK(recv(customer, echo, 4, MSG_WAITALL) == 4 && std::memcmp(echo, "echo", 4) == 0);
        put(asked[1], "x");
        close(customer);
        if (!last) return;
        close(connected(SOCK_STREAM, "sleepy.socket"));
        int ended = 0;
        CHECK(waitpid(server, &ended, 0) == server && WEXITSTATUS(ended) == 7);
    };
}

}  // namespace

int main() {
    test::serve({{"connections by path, relative path and abstract name", connections},
                 {"a connection whose listener has gone", listener_gone},
                 {"full both ways", full_both_ways},
                 {"descriptors in flight", descriptors_in_flight},
                 {"credentials", credentials},
                 {"shut down one way", half_shut_down},
                 {"peers that have gone", peers_gone},
                 {"connections not accepted yet", not_accepted_yet},
                 {"datagrams", datagrams},
                 {"a name that the kernel chose", automatic_name},
                 {"datagrams between connected sockets", datagrams_connected},
                 {"neither bound nor connected", never_bound},
                 {"a file with another name", another_name},
                 {"root's, given away", given_away},
                 {"a server asleep in accept", sleeping_server}});
}
