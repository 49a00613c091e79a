// Who calls a restart from another part: those who have the key get in, however many others call.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "resources/tcp/restore_callers.h"
#include "resources/tcp/restore_link_talk.h"

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

// Somebody with a token and a key, who calls in a thread of his own.
class Guest {
  public:
    Guest(std::uint16_t port, const TcpCallers::Ticket& ticket, bool slowly = false)
        : fd_(call(port, slowly ? "" : ticket.token)),
          channel_(Channel::Role::relay, ticket.key, Channel::Between::parts) {
        thread_ = std::thread([this, ticket, slowly] {
            const LinkTalk::Wait wait = [this](int fd, short events) -> Result<short> {
                pollfd polled{fd, events, 0};
                ::poll(&polled, 1, 20);
                if (over_) return fail("over");
                return polled.revents;
            };
            std::string rest;
            if (slowly)
                for (const char byte : ticket.token.substr(0, 20)) {
                    EXPECT_EQ(::send(fd_.get(), &byte, 1, MSG_NOSIGNAL), 1);
                    std::this_thread::sleep_for(1ms);
                }
            if (slowly) rest = ticket.token.substr(20);
            in_ = LinkTalk(fd_.get(), channel_, wait).prove(rest, 10s).has_value();
        });
    }
    ~Guest() {
        over_ = true;
        thread_.join();
    }
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    [[nodiscard]] Address address() const { return Address::of(fd_.get()); }
    [[nodiscard]] bool in() const { return in_; }

  private:
    Fd fd_;
    Channel channel_;
    std::atomic<bool> over_{false}, in_{false};
    std::thread thread_;
};

TEST(TcpCallers, StrangersKeepNobodyWaiting) {
    TcpCallers callers;
    const auto port = callers.listen(Address::loopback(AF_INET), AF_INET, socket_here);
    ASSERT_TRUE(port);
    EXPECT_EQ(callers.listen(Address::loopback(AF_INET), AF_INET, socket_here), *port);
    const auto first = callers.expect(), second = callers.expect();
    ASSERT_TRUE(first && second);
    ASSERT_EQ(first->token.size(), TcpCallers::token_size);
    ASSERT_NE(first->token, second->token);
    ASSERT_NE(first->key.bytes, second->key.bytes);
    std::vector<Fd> crowd;
    for (int i = 0; i < 400; ++i) {
        crowd.push_back(call(*port, i % 3 == 0   ? ""
                                    : i % 3 == 1 ? "GET / HTTP/1.1\r\n"
                                                 : std::string(100, 'x')));
        ASSERT_TRUE(crowd.back());
    }
    const Guest theirs(*port, *second);
    const auto begin = std::chrono::steady_clock::now();
    const auto mine = callers.take(second->token, 10s);
    ASSERT_TRUE(mine.fd && mine.channel->proved());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
    EXPECT_TRUE(Address::peer_of(mine.fd.get()).same(theirs.address()));
    // Once only; and nobody has said the other one.
    const Guest again(*port, *second);
    EXPECT_FALSE(callers.take(first->token, 50ms).fd);
    EXPECT_EQ(callers.unproved(), 0U);
}

// A token goes over the wire as it is. Who has seen it and has no key doesn't get in, nor does he keep out
// who has.
TEST(TcpCallers, ATokenAloneIsNothing) {
    TcpCallers callers;
    const auto port = callers.listen(Address::loopback(AF_INET), AF_INET, socket_here);
    ASSERT_TRUE(port);
    const auto ticket = callers.expect();
    ASSERT_TRUE(ticket);
    std::vector<Fd> crowd;
    for (int i = 0; i < 300; ++i) crowd.push_back(call(*port, ticket->token));
    TcpCallers::Ticket wrong = *ticket;
    wrong.key = *Key::random();
    const Guest liar(*port, wrong);
    EXPECT_FALSE(callers.take(ticket->token, 300ms).fd);
    EXPECT_FALSE(liar.in());
    EXPECT_GE(callers.unproved(), 1U);
    crowd.push_back(call(*port, ticket->token + "and what was said over it before, in plain"));
    EXPECT_FALSE(callers.take(ticket->token, 50ms).fd);
    // In pieces, among them.
    const Guest theirs(*port, *ticket, true);
    const auto mine = callers.take(ticket->token, 10s);
    ASSERT_TRUE(mine.fd);
    EXPECT_TRUE(Address::peer_of(mine.fd.get()).same(theirs.address()));
}

}  // namespace
}  // namespace cairn::restart
