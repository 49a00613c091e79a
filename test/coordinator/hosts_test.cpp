// A root and those who connect to it by TCP: with the key or without, well-behaved or not. Whatever one of
// them does, everybody else is answered.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "fake_relay.h"
#include "support.h"

namespace cairn::coordinator_test {
namespace {

using namespace std::chrono_literals;
using coordinator::Key;

class SeveralHosts : public CoordinatorTest {
  protected:
    // `silence`: seconds after which a host that says nothing is lost.
    void listen(const char* silence = "60") {
        ::setenv("CAIRN_HOST_TIMEOUT", silence, 1);
        start({"--listen", "127.0.0.1:0", "--host", "root"});
        ::unsetenv("CAIRN_HOST_TIMEOUT");
        // The kernel has chosen a port that nobody else has.
        ASSERT_TRUE(eventually([&] {
            std::ifstream file(root_ + "/out");
            const std::string said(std::istreambuf_iterator<char>(file), {});
            constexpr std::string_view before = "listens for other hosts at 127.0.0.1:";
            const std::size_t at = said.find(before);
            if (at == std::string::npos || said.find('\n', at) == std::string::npos) return false;
            port_ = static_cast<std::uint16_t>(std::stoi(said.substr(at + before.size())));
            return true;
        }));
    }
    [[nodiscard]] FakeRelay relay() const { return {port_, *Key::load(session_ + "/key")}; }
    [[nodiscard]] bool knows(const std::string& name) const {
        for (const Json& host : status().value("hosts", Json::array()))
            if (host.value("name", "") == name && host.value("connected", false)) return true;
        return false;
    }

    std::uint16_t port_ = 0;
};

TEST_F(SeveralHosts, WithTheKeyOneTakesPart) {
    listen();
    FakeRelay one = relay();
    ASSERT_TRUE(one.join("one", {"a"}));
    EXPECT_TRUE(knows("one"));
    EXPECT_TRUE(eventually([&] { return status()["processes"] == 1; }));
    ASSERT_TRUE(one.say({{"type", "left"}, {"uids", {"a"}}}));
    EXPECT_TRUE(eventually([&] { return status()["state"] == "idle"; }));
    // The name is taken.
    FakeRelay other = relay();
    ASSERT_TRUE(other.prove());
    ASSERT_TRUE(other.say({{"type", "host"}, {"name", "one"}}));
    EXPECT_NE(other.hear("refused").value("reason", "").find("--host"), std::string::npos);
}

TEST_F(SeveralHosts, ARelaySaysWhereToSubscribe) {
    // Its root may never come.
    ::setenv("CAIRN_KEY", std::string(64, 'a').c_str(), 1);
    start({"--coordinator", "127.0.0.1:9", "--host", "leaf"});
    ::unsetenv("CAIRN_KEY");
    Client asks = client();
    ASSERT_TRUE(asks.send(R"({"verb":"subscribe","id":7})"));
    const Json answer = asks.until("done");
    EXPECT_EQ(answer["event"], "failed");
    EXPECT_EQ(answer["code"], 3);
    EXPECT_EQ(answer["id"], 7);
    EXPECT_NE(answer.value("reason", "").find("127.0.0.1:9"), std::string::npos) << answer;
}

TEST_F(SeveralHosts, StrangersAreManyAndHarmNobody) {
    listen("1");
    std::mt19937 random(7);
    std::vector<Fd> crowd;
    for (int i = 0; i < 300; ++i) {
        Fd fd = call_port(port_);
        ASSERT_TRUE(fd);
        std::string said = i % 3 == 0 ? "" : "CAIRN-1\n";
        if (i % 3 != 1)
            for (auto n = random() % 300; n > 0; --n) said += static_cast<char>(random());
        (void)!::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL);
        crowd.push_back(std::move(fd));
        if (i % 50 == 0) {
            EXPECT_TRUE(status().is_object());
        }
    }
    EXPECT_TRUE(status()["hosts"].empty());
    // The silent are there still, and keep nobody out who has the key.
    EXPECT_TRUE(relay().join("early"));
    // Nor do those who come and go all the time.
    std::atomic<bool> enough{false};
    std::thread flood([&] {
        while (!enough) (void)call_port(port_);
    });
    int joined = 0;
    for (int i = 0; i < 20; ++i) joined += relay().join("guest" + std::to_string(i)) ? 1 : 0;
    enough = true;
    flood.join();
    EXPECT_EQ(joined, 20);
    EXPECT_TRUE(coordinator_lives());
}

TEST_F(SeveralHosts, HalfAMessageIsWaitedForNoLongerThanSilence) {
    listen("1");
    FakeRelay half = relay();
    ASSERT_TRUE(half.join("half", {"a"}));
    ASSERT_TRUE(half.write(std::string("\xff\x00\x00\x00", 4) + "the rest never comes"));
    // A checkpoint waits for it, and says for whom; others are answered meanwhile.
    Client waits = client();
    ASSERT_TRUE(waits.send(R"({"verb":"checkpoint"})"));
    EXPECT_TRUE(status().is_object());
    const Json given_up = waits.until("done");
    EXPECT_EQ(given_up["event"], "failed");
    EXPECT_NE(given_up.value("reason", "").find("half"), std::string::npos) << given_up;
    EXPECT_TRUE(eventually([&] { return !knows("half"); }));
    EXPECT_TRUE(coordinator_lives());
}

TEST_F(SeveralHosts, NonsenseFromOneWithTheKey) {
    listen();
    // Half a million levels would overflow the stack of whoever copies or writes them.
    const std::string deep = R"({"type":"host","name":"deep","addresses":)" + std::string(500'000, '[') +
                             std::string(500'000, ']') + "}";
    for (const std::string& text : {std::string(), std::string("nonsense"), std::string("[]"),
                                    std::string("{"), std::string("\xff\xfe"), std::string("3"), deep}) {
        FakeRelay bad = relay();
        ASSERT_TRUE(bad.prove());
        (void)bad.say(text);
        EXPECT_TRUE(bad.hear("welcome").is_null());
    }
    FakeRelay good = relay();
    ASSERT_TRUE(good.join("good"));
    // Fields of wrong types, in every message.
    const Json values[] = {
        1, -1, "x", Json::array({1, "a", nullptr, Json::object()}), nullptr, 1e300, Json::object(), true};
    for (const char* type : {"host", "joined", "left", "starting", "ask", "gone", "report", "more", "?"})
        for (const Json& value : values) {
            FakeRelay bad = relay();
            Json message = {{"type", type}};
            for (const char* field : {"name", "addresses", "cid", "members", "starting", "uids", "count",
                                      "client", "request", "id", "event"})
                message[field] = value;
            if (message["type"] == "host") {
                ASSERT_TRUE(bad.prove());
            } else {
                ASSERT_TRUE(bad.join("bad"));
            }
            (void)bad.say(message);
            if (message["type"] != "host") {
                EXPECT_TRUE(knows("good"));
            }
            ASSERT_TRUE(good.say({{"type", "ping"}}));
            ::shutdown(bad.fd(), SHUT_RDWR);
            EXPECT_TRUE(eventually([&] { return !knows("bad"); }));
        }
    // Every verb with every wrong field, asked by a relay.
    std::uint64_t client = 1;
    for (const char* verb : {"hello", "status", "list", "interval", "restart-join", "restart-links",
                             "restart-ready", "restart-done", "?"})
        for (const Json& value : values) {
            Json request = {{"verb", verb}};
            for (const char* field : {"ckptdir", "interval", "keep", "seconds", "cid", "np", "part", "parts",
                                      "members", "directory", "generation", "more", "ends"})
                request[field] = value;
            ASSERT_TRUE(good.say({{"type", "ask"}, {"client", ++client}, {"request", request}}));
            ASSERT_TRUE(good.say({{"type", "gone"}, {"client", client}}));
        }
    ASSERT_TRUE(good.say({{"type", "ask"}, {"client", 1}, {"request", {{"verb", "status"}}}}));
    Json answer;
    do answer = good.hear("answer");
    while (answer.is_object() && answer.value("client", 0) != 1);
    EXPECT_TRUE(answer.is_object());
    EXPECT_TRUE(coordinator_lives());
}

// Thousands of questions, and no answer is read: what waits for it is limited, and others are answered.
TEST_F(SeveralHosts, WhoNeverReadsIsLost) {
    listen();
    FakeRelay deaf = relay();
    ASSERT_TRUE(deaf.join("deaf"));
    // With a long path in each answer a few thousand of them are the 64 MiB that the root keeps.
    ASSERT_EQ(ask({{"verb", "hello"}, {"ckptdir", "/" + std::string(3900, 'x')}})["event"], "done");
    const int small = 4096;
    ::setsockopt(deaf.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const Json question = {{"type", "ask"}, {"client", 1}, {"request", {{"verb", "status"}}}};
    bool lost = false;
    for (int i = 0; i < 1'000'000 && !lost; ++i) {
        lost = !deaf.say(question);
        if (i % 4'000 == 0) {
            EXPECT_TRUE(status().is_object());
        }
    }
    EXPECT_TRUE(lost);
    EXPECT_TRUE(eventually([&] { return !knows("deaf"); }));
    EXPECT_TRUE(relay().join("deaf"));
}

}  // namespace
}  // namespace cairn::coordinator_test
