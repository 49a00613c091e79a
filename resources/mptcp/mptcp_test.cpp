// MPTCP sockets are captured and restored, or refused, without a checkpoint.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

int new_mptcp(int flags = 0) {
    return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, IPPROTO_MPTCP);
}
sockaddr_in loopback_port(int port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<in_port_t>(port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return name;
}
bool bind_loopback(int fd, int port) {
    const sockaddr_in name = loopback_port(port);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}
bool call_loopback(int fd, int port) {
    const sockaddr_in name = loopback_port(port);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}
int port_of(int fd) {
    sockaddr_in name{};
    socklen_t length = sizeof name;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length);
    return ntohs(name.sin_port);
}
int option_of(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return ::getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}
// A port that nobody is given unasked, and the next one: tests beside this one have other pairs.
int free_loopback_port() {
    for (int port = 20'000 + ::getpid() % 450 * 2; port < 21'000; ++port)
        if (bind_loopback(Fd(new_mptcp()).get(), port)) return port;
    return 0;
}

#define NEED_MPTCP \
    if (!Fd(new_mptcp())) GTEST_SKIP() << "no MPTCP"

TEST(ObjectsMptcp, WithNameAndOptions) {
    NEED_MPTCP;
    const int bound_port = free_loopback_port(), port = bound_port + 1;
    Stopped process([&] {
        at(120, new_mptcp());
        at(121, new_mptcp(SOCK_NONBLOCK));
        at(122, new_mptcp());
        at(123, ::fcntl(122, F_DUPFD, 124));
        CHILD_CHECK(bind_loopback(121, bound_port) && bind_loopback(122, port) && ::listen(122, 7) == 0);
        const int yes = 1;
        CHILD_CHECK(::setsockopt(121, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes) == 0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        for (const int fd : {120, 121, 122})
            CHILD_CHECK(option_of(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_MPTCP &&
                        option_of(fd, SOL_SOCKET, SO_REUSEADDR) == 0 &&
                        option_of(fd, SOL_SOCKET, SO_ACCEPTCONN) == (fd == 122 ? 1 : 0));
        CHILD_CHECK(port_of(120) == 0 && port_of(121) == bound_port && port_of(122) == port);
        CHILD_CHECK((::fcntl(121, F_GETFL) & O_NONBLOCK) != 0);
        CHILD_CHECK(option_of(121, SOL_SOCKET, SO_KEEPALIVE) == 1);
        tcp_info info{};
        socklen_t length = sizeof info;
        if (::getsockopt(122, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) CHILD_CHECK(info.tcpi_sacked == 7);
        CHILD_CHECK(same_description(122, 123) && !same_description(121, 122));
    });
}

TEST(ObjectsMptcp, AtAPortThatIsTaken) {
    NEED_MPTCP;
    const int port = free_loopback_port();
    Stopped process([&] {
        at(120, new_mptcp());
        CHILD_CHECK(bind_loopback(120, port) && ::listen(120, 1) == 0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const Stopped other([&] {
        at(120, ::socket(AF_INET, SOCK_STREAM, 0));
        CHILD_CHECK(bind_loopback(120, port) && ::listen(120, 1) == 0);
    });
    const auto set = checkpoint.open();
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, ExitCode::refused);
    EXPECT_NE(set.error().what.find(
                  fmt::format("port 127.0.0.1:{} is taken by {}: a restored program listens there; end the "
                              "other one and restart again (a checkpoint with --external=keep-listening "
                              "takes another port)",
                              port, proc::label(other.pid()))),
              std::string::npos)
        << set.error().what;
}

// Who isn't called there can have another one.
TEST(ObjectsMptcp, NotListeningAtAPortThatIsTaken) {
    NEED_MPTCP;
    const int port = free_loopback_port();
    Stopped process([&] {
        at(120, new_mptcp());
        CHILD_CHECK(bind_loopback(120, port));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const Fd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(bind_loopback(other.get(), port));
    checkpoint.restore([&](std::size_t) { CHILD_CHECK(port_of(120) != port && port_of(120) != 0); });
    const auto words = fmt::format("127.0.0.1:{} is taken: an MPTCP socket that was bound to it is at", port);
    EXPECT_TRUE(std::ranges::any_of(checkpoint.notes, [&](const std::string& note) {
        return note.contains(words);
    })) << fmt::format("{}", fmt::join(checkpoint.notes, "\n"));
}

// In a network namespace of its own.
// root: which is for who has CAP_SYS_ADMIN
TEST(ObjectsMptcp, WhereItIsSwitchedOff) {
    NEED_MPTCP;
    Stopped process([&] { at(120, new_mptcp()); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const Fd home(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (::unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "a network namespace is not allowed";
    const Fd setting(::open("/proc/sys/net/mptcp/enabled", O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(::write(setting.get(), "0", 1), 1);
    const auto set = checkpoint.open();
    ASSERT_EQ(::setns(home.get(), CLONE_NEWNET), 0);
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, ExitCode::refused);
    EXPECT_NE(set.error().what.find("MPTCP is switched off here, and a restored program has such a socket: "
                                    "switch it on (sysctl net.mptcp.enabled=1) and restart again"),
              std::string::npos)
        << set.error().what;
}

TEST(ObjectsMptcp, ThatIsConnectedIsRefused) {
    NEED_MPTCP;
    const int port = free_loopback_port();
    const auto connect_and_accept = [&] {
        at(150, new_mptcp());
        CHILD_CHECK(bind_loopback(150, port) && ::listen(150, 1) == 0);
        at(120, new_mptcp());
        CHILD_CHECK(call_loopback(120, port));
        at(151, ::accept(150, nullptr, nullptr));
    };
    expect_refused(connect_and_accept,
                   fmt::format("is an MPTCP socket that is connected to 127.0.0.1:{}: what the two ends have "
                               "agreed on is known to the kernel alone, so it can't be saved; close it "
                               "before a checkpoint, or have the program use plain TCP (Go: "
                               "GODEBUG=multipathtcp=0)",
                               port));
}

TEST(ObjectsMptcp, WhoseConnectionHasEndedIsRefused) {
    NEED_MPTCP;
    const int port = free_loopback_port();
    const std::string words =
        "is an MPTCP socket with a connection that is being made, or that has ended: this can't be saved; "
        "close it before a checkpoint, or have the program use plain TCP (Go: GODEBUG=multipathtcp=0)";
    // Both have said that they send no more.
    expect_refused(
        [&] {
            at(150, new_mptcp());
            CHILD_CHECK(bind_loopback(150, port) && ::listen(150, 1) == 0);
            at(120, new_mptcp());
            CHILD_CHECK(call_loopback(120, port));
            ::shutdown(120, SHUT_WR);
            ::close(::accept(150, nullptr, nullptr));
            char byte = 0;
            CHILD_CHECK(::read(120, &byte, 1) == 0);
            sockaddr_in peer{};
            socklen_t length = sizeof peer;
            const auto is_connected = [&] {
                return ::getpeername(120, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
            };
            for (int i = 0; i < 1000 && is_connected(); ++i) ::usleep(10'000);
        },
        words);
}

TEST(ObjectsMptcp, WithAnErrorIsRefused) {
    NEED_MPTCP;
    const int port = free_loopback_port();
    expect_refused(
        [&] {
            at(120, new_mptcp(SOCK_NONBLOCK));
            CHILD_CHECK(!call_loopback(120, port));
            pollfd polled{120, 0, 0};
            CHILD_CHECK(::poll(&polled, 1, 10'000) == 1 && (polled.revents & POLLERR) != 0);
        },
        "is an MPTCP socket that failed to connect, and keeps the error until it is asked for (SO_ERROR): "
        "this can't be saved; ask for it, or close the socket, before a checkpoint");
}

TEST(ObjectsMptcp, ThatAConnectionWaitsInIsRefused) {
    NEED_MPTCP;
    const int port = free_loopback_port();
    for (const int protocol : {static_cast<int>(IPPROTO_TCP), static_cast<int>(IPPROTO_MPTCP)})
        expect_refused(
            [&] {
                at(120, new_mptcp());
                CHILD_CHECK(bind_loopback(120, port) && ::listen(120, 1) == 0);
                at(150, ::socket(AF_INET, SOCK_STREAM, protocol));
                CHILD_CHECK(call_loopback(150, port) && readable(120, 10'000));
            },
            "is an MPTCP socket that listens, and a connection waits in it: such a connection can't be saved "
            "before it is accepted, and then only if it is of plain TCP; accept it before a checkpoint, and "
            "close it if it is of MPTCP");
}

}  // namespace
}  // namespace cairn::test
