// Who calls a restart from another part: those who have the token get in, however many others call.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <vector>

#include "restart/objects/tcp_callers.h"

namespace cairn::restart {
namespace {

using namespace std::chrono_literals;

Fd socket_here() {
    return Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

Fd call(std::uint16_t port, const std::string& words) {
    Fd fd = socket_here();
    const Address to = Address::loopback(AF_INET).with_port(port);
    if (::connect(fd.get(), to.name(), to.length()) != 0) return {};
    EXPECT_EQ(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
    return fd;
}

TEST(TcpCallers, StrangersKeepNobodyWaiting) {
    TcpCallers callers;
    const auto port = callers.listen(Address::loopback(AF_INET), AF_INET, socket_here);
    ASSERT_TRUE(port);
    EXPECT_EQ(callers.listen(Address::loopback(AF_INET), AF_INET, socket_here), *port);
    const std::string first = callers.expect(), second = callers.expect();
    ASSERT_EQ(first.size(), TcpCallers::token_size);
    ASSERT_NE(first, second);
    std::vector<Fd> crowd;
    for (int i = 0; i < 400; ++i) {
        crowd.push_back(call(*port, i % 3 == 0   ? ""
                                    : i % 3 == 1 ? "GET / HTTP/1.1\r\n"
                                                 : std::string(100, 'x')));
        ASSERT_TRUE(crowd.back());
    }
    const Fd theirs = call(*port, second);
    const auto begin = std::chrono::steady_clock::now();
    const Fd mine = callers.take(second, 10s);
    ASSERT_TRUE(mine);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
    EXPECT_TRUE(Address::peer_of(mine.get()).same(Address::of(theirs.get())));
    // Once only; and nobody has said the other one.
    const Fd again = call(*port, second);
    EXPECT_FALSE(callers.take(first, 50ms));
    // In pieces, among others.
    const Fd slow = call(*port, first.substr(0, 20));
    EXPECT_FALSE(callers.take(first, 50ms));
    ASSERT_EQ(::send(slow.get(), first.data() + 20, 12, MSG_NOSIGNAL), 12);
    const Fd other = callers.take(first, 10s);
    ASSERT_TRUE(other);
    EXPECT_TRUE(Address::peer_of(other.get()).same(Address::of(slow.get())));
}

}  // namespace
}  // namespace cairn::restart
