// vsock(7) sockets are captured and restored, or refused, without a checkpoint.
#include <linux/vm_sockets.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

sockaddr_vm vsock_name(unsigned cid, unsigned port) {
    sockaddr_vm name{};
    name.svm_family = AF_VSOCK;
    name.svm_cid = cid;
    name.svm_port = port;
    return name;
}
bool bind_vsock(int fd, const sockaddr_vm& name) {
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}
bool connect_vsock(int fd, const sockaddr_vm& name) {
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
}
sockaddr_vm name_of_vsock(int fd) {
    sockaddr_vm name{};
    socklen_t length = sizeof name;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length);
    return name;
}

// The kernel hands ports out one after the other: this one is nobody else's for long.
unsigned free_vsock_port() {
    const Fd fd(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bind_vsock(fd.get(), vsock_name(VMADDR_CID_ANY, VMADDR_PORT_ANY));
    return name_of_vsock(fd.get()).svm_port;
}

// How a call to this machine itself goes, to a port where nobody listens.
enum class Call { no_vsock, nowhere, unanswered, refused };
Call call_nobody() {
    const Fd fd(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return Call::no_vsock;
    const timeval patience{0, 10'000};
    ::setsockopt(fd.get(), AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof patience);
    connect_vsock(fd.get(), vsock_name(VMADDR_CID_LOCAL, free_vsock_port()));
    return errno == ETIMEDOUT ? Call::unanswered : errno == ECONNRESET ? Call::refused : Call::nowhere;
}

#define NEED_VSOCK \
    if (call_nobody() == Call::no_vsock) GTEST_SKIP() << "no vsocks"
// A transport from this machine to itself.
#define NEED_LOOPBACK \
    if (call_nobody() != Call::refused) GTEST_SKIP() << "no vsock_loopback"

constexpr std::string_view leads_away =
    "that leads to another virtual machine or its host, and can't be saved; ";

TEST(ObjectsVsock, WithNameAndOptions) {
    NEED_VSOCK;
    const sockaddr_vm stream = vsock_name(VMADDR_CID_ANY, free_vsock_port()),
                      packets = vsock_name(VMADDR_CID_ANY, free_vsock_port());
    Stopped process([&] {
        at(120, ::socket(AF_VSOCK, SOCK_SEQPACKET, 0));
        at(121, ::socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK, 0));
        at(122, ::socket(AF_VSOCK, SOCK_SEQPACKET, 0));
        at(123, ::fcntl(122, F_DUPFD, 124));
        CHILD_CHECK(bind_vsock(121, stream) && bind_vsock(122, packets) && ::listen(122, 7) == 0);
        const std::uint64_t bytes = 70'000;
        const timeval patience{3, 500'000};
        CHILD_CHECK(::setsockopt(121, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &bytes, sizeof bytes) == 0);
        CHILD_CHECK(::setsockopt(121, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof patience) ==
                    0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    EXPECT_TRUE(std::ranges::any_of(checkpoint.notes, [](const std::string& note) {
        return note.contains("descriptor 122 is a vsock that listens: the kernel doesn't tell how many");
    })) << fmt::format("{}", fmt::join(checkpoint.notes, "\n"));
    checkpoint.restore([&](std::size_t) {
        const auto has = [](int fd, int level, int name, int wanted) {
            int value = -1;
            socklen_t length = sizeof value;
            return ::getsockopt(fd, level, name, &value, &length) == 0 && value == wanted;
        };
        CHILD_CHECK(has(120, SOL_SOCKET, SO_TYPE, SOCK_SEQPACKET) &&
                    has(120, SOL_SOCKET, SO_DOMAIN, AF_VSOCK));
        CHILD_CHECK(name_of_vsock(120).svm_port == VMADDR_PORT_ANY && has(120, SOL_SOCKET, SO_ACCEPTCONN, 0));
        CHILD_CHECK(has(121, SOL_SOCKET, SO_TYPE, SOCK_STREAM) && has(121, SOL_SOCKET, SO_ACCEPTCONN, 0));
        CHILD_CHECK(name_of_vsock(121).svm_port == stream.svm_port &&
                    (::fcntl(121, F_GETFL) & O_NONBLOCK) != 0);
        CHILD_CHECK(name_of_vsock(122).svm_port == packets.svm_port && !readable(122) &&
                    has(122, SOL_SOCKET, SO_ACCEPTCONN, 1));
        CHILD_CHECK(same_description(122, 123) && !same_description(121, 122));
        std::uint64_t bytes = 0;
        timeval patience{};
        socklen_t length = sizeof bytes;
        CHILD_CHECK(::getsockopt(121, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &bytes, &length) == 0 &&
                    bytes == 70'000);
        length = sizeof patience;
        CHILD_CHECK(::getsockopt(121, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, &length) == 0 &&
                    patience.tv_sec == 3 && patience.tv_usec == 500'000);
    });
}

TEST(ObjectsVsock, AtAPortThatIsTaken) {
    NEED_VSOCK;
    const sockaddr_vm name = vsock_name(VMADDR_CID_ANY, free_vsock_port());
    Stopped process([&] {
        at(120, ::socket(AF_VSOCK, SOCK_STREAM, 0));
        CHILD_CHECK(bind_vsock(120, name));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const Fd other(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(bind_vsock(other.get(), name));
    const auto set = checkpoint.open();
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, ExitCode::refused);
    EXPECT_NE(set.error().what.find(fmt::format("port {} of vsocks is taken: a restored program is bound to "
                                                "it; end who has it and restart again",
                                                name.svm_port)),
              std::string::npos)
        << set.error().what;
}

TEST(ObjectsVsock, WithAnErrorIsRefused) {
    NEED_VSOCK;
    if (call_nobody() == Call::nowhere) GTEST_SKIP() << "no transport for vsocks";
    const unsigned port = free_vsock_port();
    expect_refused(
        [&] {
            at(120, ::socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK, 0));
            const timeval patience{0, 10'000};
            CHILD_CHECK(
                ::setsockopt(120, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof patience) == 0);
            CHILD_CHECK(!connect_vsock(120, vsock_name(VMADDR_CID_LOCAL, port)));
            pollfd polled{120, 0, 0};
            CHILD_CHECK(::poll(&polled, 1, 10'000) == 1 && polled.revents == POLLERR);
        },
        "is a vsock that failed to connect, and keeps the error until it is asked for (SO_ERROR): this can't "
        "be saved; ask for it, or close the socket, before a checkpoint");
}

// A call that nobody answers; or, where there is a loopback, a connection that one end has shut down.
TEST(ObjectsVsock, WithHalfAConnectionIsRefused) {
    NEED_VSOCK;
    const Call call = call_nobody();
    if (call == Call::nowhere) GTEST_SKIP() << "no transport for vsocks";
    const unsigned port = free_vsock_port();
    expect_refused(
        [&] {
            at(120, ::socket(AF_VSOCK, SOCK_STREAM, 0));
            if (call == Call::refused) {
                at(150, ::socket(AF_VSOCK, SOCK_STREAM, 0));
                CHILD_CHECK(bind_vsock(150, vsock_name(VMADDR_CID_ANY, port)) && ::listen(150, 1) == 0);
                CHILD_CHECK(connect_vsock(120, vsock_name(VMADDR_CID_LOCAL, port)));
                CHILD_CHECK(::shutdown(120, SHUT_WR) == 0);
                return;
            }
            const timeval patience{100, 0};
            CHILD_CHECK(
                ::setsockopt(120, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof patience) == 0);
            CHILD_CHECK(::fcntl(120, F_SETFL, O_NONBLOCK) == 0);
            CHILD_CHECK(!connect_vsock(120, vsock_name(VMADDR_CID_LOCAL, port)) && errno == EINPROGRESS);
        },
        fmt::format("is a vsock with a connection that is being made, or that was shut down: {}close it "
                    "before a checkpoint",
                    leads_away));
}

TEST(ObjectsVsock, ThatIsConnectedIsRefused) {
    NEED_LOOPBACK;
    const unsigned port = free_vsock_port();
    const auto connect_and_accept = [&] {
        at(150, ::socket(AF_VSOCK, SOCK_STREAM, 0));
        CHILD_CHECK(bind_vsock(150, vsock_name(VMADDR_CID_ANY, port)) && ::listen(150, 1) == 0);
        at(120, ::socket(AF_VSOCK, SOCK_STREAM, 0));
        CHILD_CHECK(connect_vsock(120, vsock_name(VMADDR_CID_LOCAL, port)));
        at(151, ::accept(150, nullptr, nullptr));
    };
    const std::string words = fmt::format(
        "is a vsock that is connected to port {} of CID {}: {}close it before "
        "a checkpoint",
        port, +VMADDR_CID_LOCAL, leads_away);
    expect_refused(connect_and_accept, words);
    // Also when the other end has gone.
    expect_refused(
        [&] {
            connect_and_accept();
            ::close(151);
            CHILD_CHECK(readable(120, 10'000));
        },
        words);
}

TEST(ObjectsVsock, ThatAConnectionWaitsInIsRefused) {
    NEED_LOOPBACK;
    const unsigned port = free_vsock_port();
    expect_refused(
        [&] {
            at(120, ::socket(AF_VSOCK, SOCK_STREAM, 0));
            CHILD_CHECK(bind_vsock(120, vsock_name(VMADDR_CID_ANY, port)) && ::listen(120, 1) == 0);
            at(150, ::socket(AF_VSOCK, SOCK_STREAM, 0));
            CHILD_CHECK(connect_vsock(150, vsock_name(VMADDR_CID_LOCAL, port)));
        },
        fmt::format("is a vsock that listens, and a connection waits in it: {}accept and close it before a "
                    "checkpoint",
                    leads_away));
}

}  // namespace
}  // namespace cairn::test
