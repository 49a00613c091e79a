// More on its way than a new connection has room for: what its receiver had read before had let its buffer
// grow.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>
#include <fstream>
#include <vector>

#include "common/fd.h"
#include "resources/tcp/restore_fill.h"

namespace cairn::test {
namespace {

struct TcpEnds {
    Fd sender, receiver;
};

TcpEnds connected_ends() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), name, length) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), name, &length) != 0)
        return {};
    TcpEnds ends{Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), {}};
    if (::connect(ends.sender.get(), name, length) != 0) return {};
    ends.receiver.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return ends;
}

TEST(ObjectsTcpFill, ABufferThatHadGrownGrowsAgain) {
    int least = 0, first = 0, most = 0;
    std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> first >> most;
    // Half of that is promised at once; the rest has to grow. What is in pieces takes a little more room.
    const auto bytes = static_cast<std::size_t>(most) / 16 * 14;
    std::vector<std::uint8_t> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(i * i / 251);
    const auto ends = connected_ends();
    ASSERT_TRUE(ends.receiver);
    const restart::StillWanted wanted = [] { return Result<>(); };
    restart::Filling filling(wanted);
    const auto sent = filling.send(ends.sender.get(), ends.receiver.get(), data);
    ASSERT_TRUE(sent) << sent.error().what;
    std::vector<std::uint8_t> got(bytes);
    ASSERT_EQ(::recv(ends.receiver.get(), got.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    EXPECT_TRUE(got == data);
    int more = 0;
    EXPECT_TRUE(::ioctl(ends.receiver.get(), FIONREAD, &more) == 0 && more == 0);
}

}  // namespace
}  // namespace cairn::test
