// Two parts of a restart that meet over a network which isn't theirs: somebody records what goes by, changes
// a byte, answers in the other's place, or says more than there can be.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "resources/tcp/restore_link_talk.h"
#include "resources/tcp/restore_links.h"

namespace cairn::restart {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

Fd tcp_socket() {
    return Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

schema::Bytes some_bytes(std::size_t size, std::uint32_t seed) {
    schema::Bytes bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
    return bytes;
}

bool contains(const std::string& wire, const schema::Bytes& data, std::size_t at) {
    return wire.find(std::string(data.begin() + static_cast<std::ptrdiff_t>(at),
                                 data.begin() + static_cast<std::ptrdiff_t>(at) + 8)) != std::string::npos;
}

// Somebody on the path: hands on what comes, both ways, keeps a copy of it, and changes one byte if asked to.
class Between {
  public:
    enum Way : std::size_t { to_listener, to_caller };
    struct Change {
        Way way;
        std::size_t at;
    };

    explicit Between(std::uint16_t port, std::optional<Change> change = {}) : port_(port), change_(change) {
        listener_ = tcp_socket();
        const Address here = Address::loopback(AF_INET);
        EXPECT_EQ(::bind(listener_.get(), here.name(), here.length()), 0);
        EXPECT_EQ(::listen(listener_.get(), 16), 0);
        thread_ = std::thread([this] { run(); });
    }
    ~Between() {
        over_ = true;
        thread_.join();
    }
    Between(const Between&) = delete;
    Between& operator=(const Between&) = delete;
    [[nodiscard]] std::uint16_t port() const { return Address::of(listener_.get()).port(); }
    [[nodiscard]] std::string seen(Way way) {
        const std::lock_guard lock(mutex_);
        return seen_[way];
    }

  private:
    void run() {
        Fd ends[2];
        while (!over_) {
            pollfd polled[] = {
                {listener_.get(), POLLIN, 0}, {ends[0].get(), POLLIN, 0}, {ends[1].get(), POLLIN, 0}};
            ::poll(polled, 3, 20);
            if (polled[0].revents != 0) {
                ends[0] = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
                ends[1] = tcp_socket();
                const Address there = Address::loopback(AF_INET).with_port(port_);
                if (::connect(ends[1].get(), there.name(), there.length()) != 0) ends[1].reset();
                continue;
            }
            for (const Way way : {to_listener, to_caller})
                if (polled[1 + way].revents != 0) pass(ends, way);
        }
    }
    void pass(Fd (&ends)[2], Way way) {
        char bytes[65536];
        const ssize_t n = ::recv(ends[way].get(), bytes, sizeof bytes, 0);
        if (n <= 0) {
            ends[0].reset();
            ends[1].reset();
            return;
        }
        const std::lock_guard lock(mutex_);
        std::string& seen = seen_[way];
        if (change_ && change_->way == way && change_->at >= seen.size() &&
            change_->at < seen.size() + static_cast<std::size_t>(n))
            bytes[change_->at - seen.size()] ^= 4;
        seen.append(bytes, static_cast<std::size_t>(n));
        (void)!::send(ends[1 - way].get(), bytes, static_cast<std::size_t>(n), MSG_NOSIGNAL);
    }

    std::uint16_t port_;
    std::optional<Change> change_;
    Fd listener_;
    std::mutex mutex_;
    std::array<std::string, 2> seen_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

// A connection's two ends, each restarted by a part of its own; the coordinator is a board where both write.
class Parts {
  public:
    // What a part is told of the other end, before it is.
    std::function<void(wire::PartEnd& end, int side)> told = [](wire::PartEnd&, int) {};
    Link links[2];
    schema::Bytes contents[2];
    Result<> outcome[2];

    Parts() {
        for (const int side : {0, 1}) {
            Link& link = links[side];
            link.saved.number = 7;
            link.saved.side = side;
            link.saved.their_unread = link.saved.their_unsent = 1 << 30;
            link.domain = AF_INET;
            link.own = Address::parse(side == 0 ? "192.0.2.1" : "192.0.2.2", 4000);
            link.peer = Address::parse(side == 0 ? "192.0.2.2" : "192.0.2.1", 4000);
            link.peer_now = link.peer;
            link.make = tcp_socket;
            link.bind = [](int, const Address&) { return false; };
            contents[side] = some_bytes(300'000, static_cast<std::uint32_t>(side) + 1);
        }
    }
    // True if both are connected.
    bool meet() {
        std::thread other([this] { restart(1); });
        restart(0);
        other.join();
        return outcome[0] && outcome[1];
    }
    [[nodiscard]] std::string problems() const {
        std::string text;
        for (const auto& each : outcome)
            if (!each) text += each.error().what + "\n";
        return text;
    }

  private:
    void restart(int side) {
        links[side].contents = &contents[side];
        const MeetLinks meet = [this,
                                side](std::vector<wire::PartEnd> ends) -> Result<std::vector<wire::PartEnd>> {
            std::unique_lock lock(mutex_);
            said_[side] = std::move(ends);
            changed_.notify_all();
            if (!changed_.wait_for(lock, 10s, [&] { return said_[1 - side].has_value(); }))
                return fail("nobody came");
            auto others = *said_[1 - side];
            for (wire::PartEnd& end : others) told(end, side);
            return others;
        };
        const StillWanted wanted = [this]() -> Result<> {
            return given_up_ ? Result<>(fail("another part has given up")) : Result<>();
        };
        outcome[side] = connect_links({&links[side]}, {meet, wanted, hosts_, {}});
        if (outcome[side]) return;
        given_up_ = true;
        links[side].fd.reset();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<std::vector<wire::PartEnd>> said_[2];
    std::atomic<bool> given_up_{false};
    std::vector<std::string> hosts_;
};

class TcpLinks : public testing::Test {
  protected:
    std::unique_ptr<Between> between;
    // Puts somebody between the parts.
    void tap(Parts& parts, std::optional<Between::Change> change = {}) {
        parts.told = [this, change](wire::PartEnd& end, int side) {
            if (side == 0) return;
            between = std::make_unique<Between>(end.port, change);
            end.port = between->port();
        };
    }
};

TEST_F(TcpLinks, NothingOfThemCanBeReadOnTheWay) {
    Parts parts;
    std::string key;
    parts.links[1].saved.written = 5000;
    parts.links[1].saved.sent = schema::Bytes(2000, 'y');
    parts.links[0].saved.arrived = 4000;
    tap(parts);
    parts.told = [tapped = parts.told, &key](wire::PartEnd& end, int side) {
        tapped(end, side);
        if (side == 1) key = end.key;
    };
    ASSERT_TRUE(parts.meet()) << parts.problems();
    EXPECT_EQ(parts.links[0].to_send, parts.contents[1]);
    EXPECT_EQ(parts.links[0].between, schema::Bytes(1000, 'y'));
    ASSERT_EQ(parts.links[1].to_send.size(), 301'000U);
    EXPECT_TRUE(
        std::equal(parts.contents[0].begin(), parts.contents[0].end(), parts.links[1].to_send.begin()));
    for (const auto way : {Between::to_listener, Between::to_caller}) {
        const std::string wire = between->seen(way);
        EXPECT_GT(wire.size(), 300'000U);
        for (const schema::Bytes& data : parts.contents)
            for (std::size_t at = 0; at + 8 < data.size(); at += 5000)
                EXPECT_FALSE(contains(wire, data, at)) << "plain at " << at;
        EXPECT_EQ(wire.find("contents"), std::string::npos);
        EXPECT_EQ(wire.find("yyyyyyyy"), std::string::npos);
        EXPECT_EQ(wire.find(key), std::string::npos);
        const auto secret = Key::parse(key, "test")->bytes;
        EXPECT_EQ(wire.find(std::string(secret.begin(), secret.end())), std::string::npos);
    }
    // What follows on the connection is nobody's but the programs'.
    for (const int side : {0, 1}) {
        ASSERT_EQ(::send(parts.links[side].fd.get(), "mine", 4, 0), 4);
        char came[16] = {};
        ASSERT_EQ(::recv(parts.links[1 - side].fd.get(), came, sizeof came, 0), 4);
        EXPECT_STREQ(came, "mine");
    }
}

// Whatever byte it is, token, greeting, proof or message, of either direction: one of the two gives up, and
// who doesn't has what is true.
TEST_F(TcpLinks, AChangedByteEndsThem) {
    std::size_t sizes[2] = {};
    {
        Parts parts;
        tap(parts);
        ASSERT_TRUE(parts.meet()) << parts.problems();
        for (const auto way : {Between::to_listener, Between::to_caller})
            sizes[way] = between->seen(way).size();
    }
    int tried = 0;
    for (const auto way : {Between::to_listener, Between::to_caller})
        for (const std::size_t at : {std::size_t{0}, std::size_t{33}, std::size_t{45}, std::size_t{90},
                                     std::size_t{130}, std::size_t{200}, sizes[way] / 2, sizes[way] - 1}) {
            Parts parts;
            tap(parts, Between::Change{way, at});
            EXPECT_FALSE(parts.meet()) << "byte " << at << " of way " << way;
            for (const int side : {0, 1})
                if (parts.outcome[side]) {
                    EXPECT_EQ(parts.links[side].to_send, parts.contents[1 - side]);
                }
            ++tried;
        }
    EXPECT_EQ(tried, 16);
}

// Somebody who answers where the other part is expected, and has seen all that can be seen.
TEST_F(TcpLinks, WhoAnswersInTheOthersPlaceIsToldNothing) {
    const auto other_key = *Key::random();
    for (const char* kind : {"echo", "noise", "other key", "hangs up"}) {
        Parts parts;
        const Fd listener = tcp_socket();
        const Address here = Address::loopback(AF_INET);
        ASSERT_EQ(::bind(listener.get(), here.name(), here.length()), 0);
        ASSERT_EQ(::listen(listener.get(), 16), 0);
        const std::uint16_t port = Address::of(listener.get()).port();
        parts.told = [port](wire::PartEnd& end, int side) {
            if (side == 1) end.port = port;
        };
        std::string heard;
        std::thread impostor([&] {
            const Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
            Channel channel(Channel::Role::root, other_key, Channel::Between::parts);
            char bytes[4096];
            for (ssize_t n = 0; (n = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;) {
                const std::size_t before = heard.size();
                heard.append(bytes, static_cast<std::size_t>(n));
                std::string answer(bytes, static_cast<std::size_t>(n));
                if (kind == std::string("hangs up")) return;
                if (kind == std::string("noise")) answer = std::string(200, '\x5a');
                if (kind == std::string("other key")) {
                    const std::size_t from = std::max<std::size_t>(before, 32);
                    if (heard.size() > from && !channel.feed(std::string_view(heard).substr(from))) return;
                    answer = std::exchange(channel.output, {});
                }
                (void)!::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
            }
        });
        EXPECT_FALSE(parts.meet()) << kind;
        impostor.join();
        EXPECT_NE(parts.problems().find("can't be reached"), std::string::npos) << kind << parts.problems();
        EXPECT_LE(heard.size(), 32U + Channel::longest_greeting) << kind;
        for (std::size_t at = 0; at + 8 < 300'000; at += 5000)
            EXPECT_FALSE(contains(heard, parts.contents[1], at));
    }
}

TEST_F(TcpLinks, NoMoreComesThanTheImageAllows) {
    const auto fitting = [](Parts& parts) {
        for (Link& link : parts.links) {
            link.saved.arrived = 4000;
            link.saved.written = 5000;
            link.saved.sent = schema::Bytes(2000, 'y');
            link.saved.their_unread = 300'000;
            link.saved.their_unsent = 1'000;
        }
    };
    Parts fine;
    fitting(fine);
    EXPECT_TRUE(fine.meet()) << fine.problems();
    for (const int side : {0, 1})
        for (const bool unread : {true, false}) {
            Parts parts;
            fitting(parts);
            --(unread ? *parts.links[side].saved.their_unread : parts.links[side].saved.their_unsent);
            EXPECT_FALSE(parts.meet());
            EXPECT_NE(parts.problems().find("by this part's image"), std::string::npos) << parts.problems();
        }
}

TEST_F(TcpLinks, AnotherVersionIsRefusedByName) {
    for (const int version : {1, 4}) {
        Parts parts;
        parts.told = [version](wire::PartEnd& end, int) { end.wire = version; };
        EXPECT_FALSE(parts.meet());
        EXPECT_NE(parts.problems().find("speaks version " + std::to_string(version)), std::string::npos)
            << parts.problems();
    }
}

// Of a part that has the key and says nonsense nothing is kept beyond what it may say, and no stack is used
// up.
TEST_F(TcpLinks, NonsenseFromOneWithTheKey) {
    const Key key = *Key::random();
    schema::Bytes deep(60'000, 0x91);  // lists of one list of one list...
    const auto words = [](const json& what) { return json::to_msgpack(what); };
    const std::vector<std::vector<schema::Bytes>> speeches = {
        {deep},
        {some_bytes(1000, 9)},
        {{}},
        {words({{"size", std::uint64_t{1} << 63}})},
        {words({{"size", -1}})},
        {words({{"size", 10}}), {}},
        {words({{"size", 10}}), schema::Bytes(11)},
        {words({{"size", 10}}), schema::Bytes(9), schema::Bytes(2)},
        {words({{"size", 1}, {"filler", std::string(70'000, 'x')}})},
        {{0xdb, 0xff, 0xff, 0xff, 0xff}},  // a text of 4 GiB
        {words(json::array({1, 2}))},
    };
    for (std::size_t i = 0; i < speeches.size(); ++i) {
        int ends[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        const Fd mine(ends[0]), theirs(ends[1]);
        Channel here(Channel::Role::relay, key, Channel::Between::parts),
            there(Channel::Role::root, key, Channel::Between::parts);
        for (int step = 0; step < 3; ++step) {
            ASSERT_TRUE(there.feed(std::exchange(here.output, {})));
            ASSERT_TRUE(here.feed(std::exchange(there.output, {})));
        }
        for (const schema::Bytes& message : speeches[i])
            ASSERT_TRUE(there.send({message.begin(), message.end()}));
        ASSERT_EQ(::send(theirs.get(), there.output.data(), there.output.size(), 0),
                  static_cast<ssize_t>(there.output.size()));
        LinkTalk talk(mine.get(), here, [](int fd, short events) -> Result<short> {
            pollfd polled{fd, events, 0};
            if (::poll(&polled, 1, 1000) == 0) return fail("it waits for more");
            return polled.revents;
        });
        const auto said = talk.swap(wire::EndSays{}, {}, 100);
        ASSERT_FALSE(said) << i;
        EXPECT_EQ(said.error().what.find("it waits for more"), std::string::npos) << i;
    }
}

}  // namespace
}  // namespace cairn::restart
