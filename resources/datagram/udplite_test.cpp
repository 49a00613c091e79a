// UDP-Lite sockets are captured and restored, or refused, without a checkpoint.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "resources/datagram/schema.h"
#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

int udplite_socket(int domain = AF_INET) {
    return ::socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDPLITE);
}
#define NEED_UDPLITE \
    if (!Fd(udplite_socket())) GTEST_SKIP() << "no UDP-Lite"

// Both families have room in it.
struct LiteName {
    sockaddr_in6 bytes{};
    socklen_t length = sizeof bytes;
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
    [[nodiscard]] int port() const { return ntohs(bytes.sin6_port); }
};
LiteName lite_name_of(int fd) {
    LiteName name;
    ::getsockname(fd, name.get(), &name.length);
    return name;
}
LiteName loopback_at(int domain, int port) {
    LiteName name;
    name.bytes.sin6_family = static_cast<sa_family_t>(domain);
    name.bytes.sin6_port = htons(static_cast<in_port_t>(port));
    if (domain == AF_INET) {
        name.length = sizeof(sockaddr_in);
        reinterpret_cast<sockaddr_in*>(&name.bytes)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        name.bytes.sin6_addr = in6addr_loopback;
    }
    return name;
}
bool bind_to(int fd, const LiteName& name) {
    return ::bind(fd, name.get(), name.length) == 0;
}
bool cover(int fd, int option, int bytes) {
    return ::setsockopt(fd, IPPROTO_UDPLITE, option, &bytes, sizeof bytes) == 0;
}
bool has_lite(int fd, int level, int name, int wanted) {
    int value = -1;
    socklen_t length = sizeof value;
    return ::getsockopt(fd, level, name, &value, &length) == 0 && value == wanted;
}
bool is_covered(int fd, int sent, int received) {
    return has_lite(fd, SOL_SOCKET, SO_PROTOCOL, IPPROTO_UDPLITE) &&
           has_lite(fd, IPPROTO_UDPLITE, schema::udplite_send_coverage, sent) &&
           has_lite(fd, IPPROTO_UDPLITE, schema::udplite_receive_coverage, received);
}
bool send_lite(int fd, const LiteName& to, std::string_view text) {
    return ::sendto(fd, text.data(), text.size(), 0, to.get(), to.length) ==
           static_cast<ssize_t>(text.size());
}
// "text from PORT"
std::string take_lite(int fd) {
    char text[200];
    LiteName from;
    const ssize_t got = ::recvfrom(fd, text, sizeof text, MSG_DONTWAIT, from.get(), &from.length);
    return got < 0 ? "nothing"
                   : fmt::format("{} from {}", std::string_view(text, std::size_t(got)), from.port());
}

std::size_t notes_of_coverage(const Checkpoint& checkpoint) {
    return static_cast<std::size_t>(std::ranges::count_if(checkpoint.notes, [](const std::string& note) {
        return note.ends_with(
            "is a UDP-Lite socket: the kernel doesn't tell whether its receive coverage (UDPLITE_RECV_CSCOV) "
            "was set to 0, after a restart it is as if it had never been set");
    }));
}

TEST(ObjectsUdpLite, WithCoverages) {
    NEED_UDPLITE;
    for (const int domain : {AF_INET, AF_INET6}) {
        Stopped process([&] {
            at(120, udplite_socket(domain));
            at(121, udplite_socket(domain));
            at(122, udplite_socket(domain));
            at(123, ::fcntl(121, F_DUPFD, 124));
            at(124, ::socket(domain, SOCK_DGRAM, 0));
            CHILD_CHECK(cover(121, schema::udplite_send_coverage, 20));
            CHILD_CHECK(cover(121, schema::udplite_receive_coverage, 1'000'000));
            CHILD_CHECK(cover(122, schema::udplite_receive_coverage, 8));
        });
        Checkpoint checkpoint;
        checkpoint.take(process);
        const schema::Objects objects = checkpoint.objects();
        EXPECT_EQ(schema::kind_of(checkpoint.object_at(objects, 120)), "udplite");
        EXPECT_EQ(schema::kind_of(checkpoint.object_at(objects, 124)), "datagram");
        EXPECT_EQ(notes_of_coverage(checkpoint), 1U);  // the one at 120
        checkpoint.restore([&](std::size_t) {
            CHILD_CHECK(is_covered(120, 0, 0) && is_covered(121, 20, 65'535) && is_covered(122, 0, 8));
            CHILD_CHECK(has_lite(121, SOL_SOCKET, SO_DOMAIN, domain) && same_description(121, 123));
            CHILD_CHECK(has_lite(124, SOL_SOCKET, SO_PROTOCOL, IPPROTO_UDP));
        });
    }
}

// Their sender has gone: whoever speaks for it does so by the same protocol.
TEST(ObjectsUdpLite, WithDatagramsOfLessCoverage) {
    NEED_UDPLITE;
    for (const int domain : {AF_INET, AF_INET6}) {
        Fd sender(udplite_socket(domain));
        ASSERT_TRUE(bind_to(sender.get(), loopback_at(domain, 0)));
        const LiteName from = lite_name_of(sender.get());
        Stopped process([&] {
            at(120, udplite_socket(domain));
            CHILD_CHECK(bind_to(120, loopback_at(domain, 0)));
            CHILD_CHECK(cover(sender.get(), schema::udplite_send_coverage, 8));
            CHILD_CHECK(send_lite(sender.get(), lite_name_of(120), "a little"));
            CHILD_CHECK(cover(120, schema::udplite_receive_coverage, 100));
            CHILD_CHECK(send_lite(sender.get(), lite_name_of(120), "too little"));
            // UDP has ports of the same numbers: who has this one there isn't the sender.
            at(121, ::socket(domain, SOCK_DGRAM, 0));
            CHILD_CHECK(bind_to(121, from));
        });
        sender.reset();
        Checkpoint checkpoint;
        checkpoint.take(process);
        checkpoint.restore([&](std::size_t) {
            CHILD_CHECK(take_lite(120) == fmt::format("a little from {}", from.port()));
            CHILD_CHECK(take_lite(120) == "nothing" && is_covered(120, 0, 100));
        });
        EXPECT_EQ(notes_of_coverage(checkpoint), 0U);
    }
}

TEST(ObjectsUdpLite, AtAPortThatIsTaken) {
    NEED_UDPLITE;
    for (const int domain : {AF_INET, AF_INET6}) {
        LiteName name;
        {
            const Fd finder(udplite_socket(domain));
            ASSERT_TRUE(bind_to(finder.get(), loopback_at(domain, 0)));
            name = lite_name_of(finder.get());
        }
        Stopped process([&] {
            at(120, udplite_socket(domain));
            CHILD_CHECK(bind_to(120, name));
        });
        Checkpoint checkpoint;
        checkpoint.take(process);
        const Stopped by_udp([&] {
            at(120, ::socket(domain, SOCK_DGRAM, 0));
            CHILD_CHECK(bind_to(120, name));
        });
        EXPECT_TRUE(checkpoint.open());
        const Stopped other([&] {
            at(120, udplite_socket(domain));
            CHILD_CHECK(bind_to(120, name));
        });
        const auto set = checkpoint.open();
        ASSERT_FALSE(set);
        EXPECT_EQ(set.error().code, ExitCode::refused);
        EXPECT_NE(set.error().what.find(
                      fmt::format(":{}: this UDP-Lite port is taken by {}: a restored program is bound to it",
                                  name.port(), proc::label(other.pid()))),
                  std::string::npos)
            << set.error().what;
    }
}

// No kernel has streams of this protocol, and says so in the words of one that hasn't the protocol.
TEST(ObjectsUdpLite, WithoutTheProtocolIsRefused) {
    Stopped process([&] { at(120, ::socket(AF_INET, SOCK_DGRAM, 0)); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    schema::Objects objects = checkpoint.objects();
    for (schema::Object& object : objects.objects)
        if (const auto* saved = object.get<schema::Datagram>()) {
            schema::UdpLite lite{*saved};
            lite.socket.style = SOCK_STREAM;
            lite.socket.protocol = IPPROTO_UDPLITE;
            object.what = lite;
        }
    std::filesystem::remove(checkpoint.folder / "objects");
    auto writer = ImageWriter::create(AT_FDCWD, checkpoint.folder / "objects", ImageKind::objects);
    ASSERT_TRUE(writer) << writer.error().what;
    writer->add_section(SectionType::objects, schema::encode(objects));
    ASSERT_TRUE(writer->finish(Durable::no));
    const auto set = checkpoint.open();
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, ExitCode::refused);
    EXPECT_NE(
        set.error().what.find("this kernel has no UDP-Lite (Linux 7.1 and later have none), and a restored "
                              "program has such a socket: restart on another machine"),
        std::string::npos)
        << set.error().what;
}

}  // namespace
}  // namespace cairn::test
