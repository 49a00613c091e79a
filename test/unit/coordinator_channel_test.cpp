// What coordinators of several hosts say to each other: the key, the stream, whatever arrives.
#include <gtest/gtest.h>

#include <random>

#include "common/channel/channel.h"
#include "coordinator/joint_checkpoint.h"
#include "coordinator/network.h"

namespace cairn::coordinator {
namespace {

Key key_of(char digit) {
    return *Key::parse(std::string(64, digit), "test");
}

// Carries what one has to say to the other, until nobody has anything. The last error there was.
Result<> carry(Channel& relay, Channel& root, std::size_t piece = 100'000) {
    Result<> last;
    while (!relay.output.empty() || !root.output.empty()) {
        for (auto [from, to] : {std::pair{&relay, &root}, {&root, &relay}}) {
            const std::string said = std::exchange(from->output, {});
            for (std::size_t at = 0; at < said.size(); at += piece)
                CHECK_OK(to->feed(std::string_view(said).substr(at, piece)));
        }
    }
    return last;
}

TEST(Channel, BothProveTheKeyAndThenTalk) {
    for (const std::size_t piece : {1UL, 7UL, 100'000UL}) {
        Channel relay(Channel::Role::relay, key_of('a')), root(Channel::Role::root, key_of('a'));
        EXPECT_FALSE(relay.send("too early"));
        ASSERT_TRUE(carry(relay, root, piece));
        ASSERT_TRUE(relay.proved() && root.proved());
        ASSERT_TRUE(relay.send("hello") && relay.send("") && root.send(std::string(300'000, 'x')));
        ASSERT_TRUE(carry(relay, root, piece));
        ASSERT_EQ(root.messages.size(), 2U);
        EXPECT_EQ(root.messages[0], "hello");
        EXPECT_EQ(root.messages[1], "");
        ASSERT_EQ(relay.messages.size(), 1U);
        EXPECT_EQ(relay.messages[0], std::string(300'000, 'x'));
    }
}

TEST(Channel, AnotherKeyIsRefusedAndLearnsNothing) {
    Channel relay(Channel::Role::relay, key_of('a')), root(Channel::Role::root, key_of('b'));
    ASSERT_TRUE(root.feed(std::exchange(relay.output, {})));
    ASSERT_TRUE(relay.feed(std::exchange(root.output, {})));
    const auto refused = root.feed(std::exchange(relay.output, {}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ExitCode::refused);
    EXPECT_TRUE(root.output.empty());  // nothing that depends on the key
    EXPECT_FALSE(root.proved() || relay.proved());
}

TEST(Channel, AProofIsGoodForOneConnectionOnly) {
    Channel relay(Channel::Role::relay, key_of('a')), root(Channel::Role::root, key_of('a'));
    const std::string greeting = std::exchange(relay.output, {});
    ASSERT_TRUE(root.feed(greeting));
    ASSERT_TRUE(relay.feed(std::exchange(root.output, {})));
    const std::string proof = std::exchange(relay.output, {});
    Channel another(Channel::Role::root, key_of('a'));
    ASSERT_TRUE(another.feed(greeting));
    EXPECT_FALSE(another.feed(proof));
}

TEST(Channel, AnyChangedByteEndsIt) {
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        Channel relay(Channel::Role::relay, key_of('a')), root(Channel::Role::root, key_of('a'));
        ASSERT_TRUE(carry(relay, root));
        ASSERT_TRUE(relay.send("one") && relay.send("two"));
        std::string said = std::exchange(relay.output, {});
        said[random() % said.size()] ^= static_cast<char>(1U << random() % 8);
        (void)root.feed(said);
        // A damaged length may ask for more than there is; whatever is taken is true.
        EXPECT_LT(root.messages.size(), 2U);
        for (const std::string& message : root.messages) EXPECT_EQ(message, "one");
    }
}

TEST(Channel, RepeatedMessagesAreNone) {
    Channel relay(Channel::Role::relay, key_of('a')), root(Channel::Role::root, key_of('a'));
    ASSERT_TRUE(carry(relay, root));
    ASSERT_TRUE(relay.send("once"));
    const std::string said = std::exchange(relay.output, {});
    ASSERT_TRUE(root.feed(said));
    EXPECT_FALSE(root.feed(said));
    EXPECT_EQ(root.messages.size(), 1U);
}

TEST(Channel, StrangersAreNotListenedToForLong) {
    Channel root(Channel::Role::root, key_of('a'));
    EXPECT_FALSE(root.feed("GET / HTTP/1.0\r\n\r\n"));
    EXPECT_FALSE(root.feed("CAIRN-2\n"));
    Channel slow(Channel::Role::root, key_of('a'));
    EXPECT_TRUE(slow.feed("CAIRN"));
    EXPECT_FALSE(slow.feed("-0\n"));  // no version that there was
    Channel flooded(Channel::Role::root, key_of('a'));
    EXPECT_FALSE(flooded.feed("CAIRN-2\n" + std::string(100'000, 'x')));
}

// Somebody who installs cairn on one host after the other is told what is missing.
TEST(Channel, AnotherVersionIsNamed) {
    for (const auto between : {Channel::Between::coordinators, Channel::Between::parts})
        for (const auto role : {Channel::Role::relay, Channel::Role::root}) {
            // The relay begins; the root's greeting is like its own.
            std::string greeting = Channel(Channel::Role::relay, key_of('a'), between).output;
            constexpr std::size_t digit = 6;  // "CAIRN-2\n", "CAIRNP2\n"
            const char ours = greeting.at(digit);
            ASSERT_TRUE(ours >= '0' && ours < '9') << greeting.substr(0, 8);
            const char theirs = greeting[digit] = static_cast<char>(ours + 1);
            for (const std::size_t piece : {1UL, greeting.size()}) {
                Channel listening(role, key_of('a'), between);
                listening.output.clear();
                Result<> heard;
                for (std::size_t at = 0; heard && at < greeting.size(); at += piece)
                    heard = listening.feed(std::string_view(greeting).substr(at, piece));
                ASSERT_FALSE(heard);
                EXPECT_EQ(heard.error().code, ExitCode::refused);
                EXPECT_EQ(heard.error().what, std::string("the other end speaks version ") + theirs +
                                                  " of what is said between hosts, this is version " + ours +
                                                  ": all hosts need the same cairn");
                EXPECT_TRUE(listening.output.empty()) << "it goes on talking to it";
            }
        }
}

TEST(Key, IsRefusedByReason) {
    EXPECT_FALSE(Key::parse("", "k"));
    EXPECT_FALSE(Key::parse(std::string(63, 'a'), "k"));
    EXPECT_FALSE(Key::parse(std::string(66, 'a'), "k"));
    EXPECT_FALSE(Key::parse(std::string(63, 'a') + "g", "k"));
    EXPECT_TRUE(Key::parse(std::string(64, 'A') + "\n", "k"));
}

TEST(Endpoint, HostAndPort) {
    EXPECT_EQ(parse_endpoint("[::1]:80")->host, "::1");
    EXPECT_EQ(parse_endpoint(":80")->host, "");
    EXPECT_EQ(parse_endpoint("a.b:7779")->port, "7779");
    for (const char* wrong : {"", "host", "host:", "host:x", "host:70000", "host:-1"})
        EXPECT_FALSE(parse_endpoint(wrong));
}

using Hosts = std::vector<wire::HostConnections>;

TEST(MatchConnections, TheOtherEndIsOnAnotherHost) {
    const Hosts said = {
        {.held = {{"01", "02", 5, true}, {"03", "04", 0, true}, {"05", "06", 0, true}}},
        {.held = {{"02", "01", 7, false}}, .unheld = {{"04", "03", "1 (s)", 0}, {"06", "05", "", 9}}}};
    const auto answers = match_connections(said);
    ASSERT_EQ(answers.size(), 2U);
    const auto& first = answers[0].ends;
    ASSERT_EQ(first.size(), 3U);
    EXPECT_EQ(pack(wire::MatchedConnections{.ends = {first[0]}}),
              pack(wire::MatchedConnections{.ends = {{.end = 0, .link = 0, .side = 0, .unsent = 7}}}));
    EXPECT_EQ(first[1].link, 1);
    EXPECT_EQ(first[1].side, 1);
    EXPECT_TRUE(first[1].pending);
    ASSERT_EQ(answers[1].pending.size(), 1U);
    EXPECT_EQ(answers[1].pending[0].index, 0U);
    EXPECT_EQ(answers[1].pending[0].link, 1);
    EXPECT_EQ(first[2].closing, 9U);
    EXPECT_EQ(first[2].link, -1);
    EXPECT_EQ(pack(wire::MatchedConnections{.ends = answers[1].ends}),
              pack(wire::MatchedConnections{.ends = {{.end = 0, .link = 0, .side = 1, .unsent = 5}}}));
    EXPECT_TRUE(answers[0].flow && answers[1].flow);
}

TEST(MatchConnections, WhatIsUnreadAtMost) {
    const auto counted = [](std::uint64_t sent, std::uint64_t received, std::uint64_t waiting) {
        return wire::EndCounted{sent, received, waiting};
    };
    const auto answers = match_connections({{.held = {{"01", "02", 0, true, 9, counted(100, 50, 7)}}},
                                            {.held = {{"02", "01", 0, true, 9, counted(50, 90, 20)}}}});
    EXPECT_EQ(answers[0].ends.at(0).unread, 20U + 12U);
    EXPECT_EQ(answers[1].ends.at(0).unread, 7U + 2U);
    const auto urgent = match_connections({{.held = {{"01", "02", 0, true, 9, counted(100, 50, 7)}}},
                                           {.held = {{"02", "01", 0, true, 9, {}}}}});
    EXPECT_EQ(urgent[0].ends.at(0).unread, std::nullopt);
}

TEST(MatchConnections, WhatWasSentToWhoDoesNotAcceptCannotBeSaved) {
    const auto answers =
        match_connections({{.held = {{"03", "04", 1, true}}}, {.unheld = {{"04", "03", "1 (s)", 0}}}});
    ASSERT_EQ(answers[0].ends.size(), 1U);
    EXPECT_NE(answers[0].ends[0].refused.find("1 (s)"), std::string::npos);
    EXPECT_TRUE(answers[1].pending.empty());
}

TEST(MatchConnections, WhoCallsWhom) {
    const auto text = [](const std::vector<wire::NumberedLink>& links) {
        std::string words;
        for (const auto& [index, link] : links) words += fmt::format("{}:{} ", index, link);
        return words;
    };
    // On another host only; each call has a number of its own, behind those of the connections.
    const auto answers = match_connections({{.held = {{"01", "02", 0, true}}, .calls = {"aa", "bb", "cc"}},
                                            {.held = {{"02", "01", 0, true}}, .reached = {"cc", "aa"}},
                                            {.calls = {"aa", "dd"}, .reached = {"dd"}}});
    EXPECT_EQ(text(answers[0].called), "0:1 2:2 ");
    EXPECT_EQ(text(answers[1].awaited), "1:1 0:2 1:3 ");
    EXPECT_EQ(text(answers[2].called), "0:3 ");
    EXPECT_TRUE(answers[2].awaited.empty());
}

TEST(MatchConnections, NothingFlowsWhereThereIsNoRoom) {
    const auto match = [](bool shown, std::uint64_t room) {
        return match_connections({{.held = {{"01", "02", 5, shown, 100}, {"03", "04", 0, shown, 100}}},
                                  {.held = {{"02", "01", 7, shown, room}, {"04", "03", 9, shown, 0}}}});
    };
    const auto fits = match(false, 5), full = match(false, 4), shown = match(true, 4);
    for (const auto& host : fits) EXPECT_FALSE(host.full);
    for (const auto& host : full) EXPECT_TRUE(host.full);
    EXPECT_TRUE(full[1].ends[0].full);
    EXPECT_FALSE(full[1].ends[1].full);
    EXPECT_FALSE(full[0].ends[0].full);
    for (const auto& host : shown) EXPECT_TRUE(!host.full && !host.flow && !host.ends[0].full);
}

// What came by the channel has proved the key, and may be nonsense nevertheless.
TEST(MatchConnections, NonsenseIsNamed) {
    for (const auto& [said, problem] : std::vector<std::pair<Json, std::string>>{
             {{{"held", {1}}}, "connections: held[0] is number, not a map"},
             {{{"held", 7}}, "connections: held is number, not an array"},
             {{{"calls", {Json::object()}}}, "connections: calls[0] is object, not a string"},
             {{{"held", {{{"own", "01"}}}}}, "connections: held[0].peer is missing"}}) {
        const auto read = wire::unpack<wire::HostConnections>(said);
        ASSERT_FALSE(read) << said;
        EXPECT_EQ(read.error().what, problem);
    }
}

}  // namespace
}  // namespace cairn::coordinator
