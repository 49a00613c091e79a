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
    EXPECT_FALSE(root.feed("CAIRN-1\n"));
    Channel slow(Channel::Role::root, key_of('a'));
    EXPECT_TRUE(slow.feed("CAIRN"));
    EXPECT_FALSE(slow.feed("-2\n"));
    Channel flooded(Channel::Role::root, key_of('a'));
    EXPECT_FALSE(flooded.feed("CAIRN-1\n" + std::string(100'000, 'x')));
}

// Somebody who installs cairn on one host after the other is told what is missing.
TEST(Channel, AnotherVersionIsNamed) {
    for (const auto between : {Channel::Between::coordinators, Channel::Between::parts})
        for (const auto role : {Channel::Role::relay, Channel::Role::root}) {
            // The relay begins; the root's greeting is like its own.
            std::string greeting = Channel(Channel::Role::relay, key_of('a'), between).output;
            constexpr std::size_t digit = 6;  // "CAIRN-1\n", "CAIRNP1\n"
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

TEST(MatchConnections, TheOtherEndIsOnAnotherHost) {
    const std::vector<Json> said = {
        {{"ends", {{"01", "02", 5, true}, {"03", "04", 0, true}, {"05", "06", 0, true}}},
         {"loose", Json::array()}},
        {{"ends", {{"02", "01", 7, false}}},
         {"loose", {{"04", "03", true, "1 (s)", 0}, {"06", "05", false, "", 9}}}}};
    const auto answers = match_connections(said);
    ASSERT_EQ(answers.size(), 2U);
    const Json& first = answers[0]["links"];
    ASSERT_EQ(first.size(), 3U);
    EXPECT_EQ(first[0], (Json{{"end", 0}, {"link", 0}, {"side", 0}, {"unsent", 7}}));
    EXPECT_EQ(first[1], (Json{{"end", 1}, {"link", 1}, {"side", 1}, {"pending", true}}));
    EXPECT_EQ(answers[1]["pending"], Json::array({Json::array({0, 1})}));
    EXPECT_EQ(first[2], (Json{{"end", 2}, {"closing", 9}}));
    ASSERT_EQ(answers[1]["links"].size(), 1U);
    EXPECT_EQ(answers[1]["links"][0], (Json{{"end", 0}, {"link", 0}, {"side", 1}, {"unsent", 5}}));
    EXPECT_TRUE(answers[0]["flow"] == true && answers[1]["flow"] == true);
}

TEST(MatchConnections, WhatWasSentToWhoDoesNotAcceptCannotBeSaved) {
    const auto answers = match_connections(
        {{{"ends", {{"03", "04", 1, true}}}}, {{"loose", {{"04", "03", true, "1 (s)", 0}}}}});
    ASSERT_EQ(answers[0]["links"].size(), 1U);
    EXPECT_NE(answers[0]["links"][0].value("loose", "").find("1 (s)"), std::string::npos);
    EXPECT_FALSE(answers[1].contains("pending"));
}

TEST(MatchConnections, WhoCallsWhom) {
    // On another host only; each call has a number of its own, behind those of the connections.
    const auto answers =
        match_connections({{{"ends", {{"01", "02", 0, true}}}, {"calls", {"aa", "bb", "cc"}}},
                           {{"ends", {{"02", "01", 0, true}}}, {"reached", {"cc", "aa"}}},
                           {{"calls", {"aa", "dd"}}, {"reached", {"dd"}}}});
    EXPECT_EQ(answers[0]["called"], Json::parse("[[0,1],[2,2]]"));
    EXPECT_EQ(answers[1]["awaited"], Json::parse("[[1,1],[0,2],[1,3]]"));
    EXPECT_EQ(answers[2]["called"], Json::parse("[[0,3]]"));
    EXPECT_FALSE(answers[2].contains("awaited"));
}

TEST(MatchConnections, NothingFlowsWhereThereIsNoRoom) {
    const auto match = [](bool shown, int room) {
        const std::vector<Json> said = {
            {{"ends", {{"01", "02", 5, shown, 100}, {"03", "04", 0, shown, 100}}}},
            {{"ends", {{"02", "01", 7, shown, room}, {"04", "03", 9, shown, 0}}}}};
        return match_connections(said);
    };
    const auto fits = match(false, 5), full = match(false, 4), shown = match(true, 4);
    for (const Json& host : fits) EXPECT_FALSE(host.contains("full")) << host;
    for (const Json& host : full) EXPECT_TRUE(host["full"] == true) << host;
    EXPECT_TRUE(full[1]["links"][0]["full"] == true);
    EXPECT_FALSE(full[1]["links"][1].contains("full"));
    EXPECT_FALSE(full[0]["links"][0].contains("full"));
    for (const Json& host : shown) EXPECT_TRUE(!host.contains("full") && host["flow"] == false) << host;
}

TEST(MatchConnections, WhateverIsSaid) {
    // What came by the channel has proved the key, and may be nonsense nevertheless.
    const std::vector<Json> said = {{{"ends", {1, "x", Json::array(), {nullptr, 3}}}, {"loose", 7}},
                                    {{"ends", Json::object()}, {"calls", 3}, {"reached", {1, nullptr}}},
                                    {{"calls", {Json::object(), 7}}, {"reached", Json::object()}},
                                    Json::object()};
    EXPECT_EQ(match_connections(said).size(), 4U);
}

}  // namespace
}  // namespace cairn::coordinator
