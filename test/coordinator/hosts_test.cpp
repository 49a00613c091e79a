// A root and those who connect to it by TCP: with the key or without, well-behaved or not. Whatever one of
// them does, everybody else is answered.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "common/region.h"
#include "fake_relay.h"
#include "support.h"

namespace cairn::coordinator_test {
namespace {

using namespace std::chrono_literals;

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

// A relay has no computation of its own: a checkpoint of its programs alone would be one of nothing.
TEST_F(SeveralHosts, ARelaysConsoleAsksTheRoot) {
    ::setenv("CAIRN_KEY", std::string(64, 'a').c_str(), 1);
    const std::string command = "(echo c; sleep 9; echo q) | CAIRN_RUNDIR=" + root_ +
                                "/run " CAIRN_COORDINATOR
                                " --session console --coordinator 127.0.0.1:9 --host leaf 2>&1";
    std::FILE* console = ::popen(command.c_str(), "r");
    ::unsetenv("CAIRN_KEY");
    ASSERT_NE(console, nullptr);
    std::string said;
    for (int c = 0; (c = std::fgetc(console)) != EOF;) said += static_cast<char>(c);
    EXPECT_EQ(::pclose(console), 0);
    EXPECT_NE(said.find("the root coordinator at 127.0.0.1:9 can't be had"), std::string::npos) << said;
}

TEST_F(SeveralHosts, StrangersAreManyAndHarmNobody) {
    listen("1");
    std::mt19937 random(7);
    std::vector<Fd> crowd;
    for (int i = 0; i < 300; ++i) {
        Fd fd = call_port(port_);
        ASSERT_TRUE(fd);
        std::string said = i % 3 == 0 ? "" : "CAIRN-2\n";
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

// Who has the key says what he likes of his processes, and the root keeps what there can be of it.
TEST_F(SeveralHosts, AMillionMembersAreNotBelieved) {
    listen();
    const auto resident_kb = [&] {
        std::ifstream file("/proc/" + std::to_string(coordinator_) + "/status");
        long found = 0;
        for (std::string line; std::getline(file, line);)
            if (line.starts_with("VmRSS:")) found = std::stol(line.substr(6));
        return found;
    };
    FakeRelay good = relay();
    ASSERT_TRUE(good.join("good", {"a"}));
    const long before = resident_kb();
    std::size_t told = 0, hosts = 0, turned_out = 0;
    std::vector<std::unique_ptr<FakeRelay>> liars;
    for (; told < 250'000; ++hosts) {
        auto& liar = liars.emplace_back(std::make_unique<FakeRelay>(port_, *Key::load(session_ + "/key")));
        ASSERT_TRUE(liar->join("liar" + std::to_string(hosts)));
        // The first by one more than there can be, the others by as many as there can be.
        const std::size_t most = hosts == 0 ? slot_count + 1 : slot_count;
        for (std::size_t at = 0; at < most; at += 1000) {
            Json members = Json::array();
            for (std::size_t i = at; i < std::min(at + 1000, most); ++i)
                members.push_back(
                    {{"uid", std::to_string(hosts) + "-" + std::to_string(i) + "-1700000000000000000"},
                     {"pid", i},
                     {"name", "a name of fifteen"}});
            told += members.size();
            if (!liar->say({{"type", "joined"}, {"members", members}})) break;
        }
        (void)liar->say({{"type", "ask"}, {"client", 1}, {"request", {{"verb", "status"}}}});
        const Json answer = liar->hear_any({"answer", "refused"});
        if (answer.is_object() && answer["type"] == "answer") continue;
        ++turned_out;
        if (hosts == 0) {
            EXPECT_NE(answer.value("reason", "").find("16384"), std::string::npos) << answer;
        }
        EXPECT_TRUE(eventually([&] { return !knows("liar" + std::to_string(hosts)); }));
    }
    EXPECT_GE(turned_out, hosts - 4);
    EXPECT_LE(status()["processes"], 65537);
    EXPECT_LE(resident_kb() - before, 64 << 10) << "KiB for " << told << " claimed members";
    std::printf("root: %ld KiB for %zu claimed members\n", resident_kb() - before, told);
    EXPECT_TRUE(knows("good"));
    // Long names, and clients without an end.
    for (const char* field : {"uid", "name"}) {
        FakeRelay liar = relay();
        ASSERT_TRUE(liar.join("long"));
        Json member = {{"uid", "u"}, {"pid", 1}, {"name", "n"}};
        member[field] = std::string(1 << 20, 'x');
        (void)liar.say({{"type", "joined"}, {"members", {member}}});
        EXPECT_TRUE(liar.hear("refused").is_object()) << field;
    }
    FakeRelay crowd = relay();
    ASSERT_TRUE(crowd.join("crowd"));
    for (int i = 0; i < 2000; ++i)
        if (!crowd.say({{"type", "ask"}, {"client", i}, {"request", {{"verb", "nothing"}}}})) break;
    EXPECT_TRUE(crowd.hear("refused").is_object());
    EXPECT_TRUE(eventually([&] { return !knows("crowd"); }));
    // A message of 16 MiB that takes a GiB when it is read.
    FakeRelay small = relay();
    ASSERT_TRUE(small.join("small"));
    std::string lists = R"({"type":"joined","members":[[])";
    while (lists.size() < (12 << 20)) lists += ",[]";
    (void)small.say(lists + "]}");
    EXPECT_TRUE(eventually([&] { return !knows("small"); }));
    EXPECT_LE(resident_kb() - before, 160 << 10);
    EXPECT_TRUE(knows("good"));
    EXPECT_TRUE(coordinator_lives());
}

// The same of a restart: its np and its members are the image's, and anybody can write an image.
TEST_F(SeveralHosts, ARestartOfAMillionIsNotBelieved) {
    listen();
    FakeRelay liar = relay();
    ASSERT_TRUE(liar.join("liar"));
    const auto join = [&](int client, const std::string& uid, std::size_t count) {
        Json members = Json::array();
        for (std::size_t i = 0; i < count; ++i)
            members.push_back({{"uid", uid + std::to_string(i)}, {"pid", 1}});
        EXPECT_TRUE(liar.say({{"type", "ask"},
                              {"client", client},
                              {"request",
                               {{"verb", "restart-join"},
                                {"cid", "c"},
                                {"np", 1 << 20},
                                {"part", client},
                                {"members", members}}}}));
        return liar.hear("answer")["event"];
    };
    EXPECT_EQ(join(1, std::string(100, 'x'), 1)["event"], "failed");
    std::size_t joined = 0;
    Json last;
    for (; joined < 200'000; joined += 8000) {
        last = join(1 + static_cast<int>(joined / 100'000), "u" + std::to_string(joined) + "-", 8000);
        if (last["event"] == "failed") break;
    }
    EXPECT_EQ(joined, 64'000U) << last;
    EXPECT_NE(last.value("reason", "").find("65536"), std::string::npos) << last;
    // One that goes leaves room for another.
    ASSERT_TRUE(liar.say({{"type", "gone"}, {"client", 1}}));
    EXPECT_EQ(join(7, "again-", 8000)["event"], "waiting");
}

// What a key is good for is written in docs/decisions/0007; where this host's user writes is none of it.
TEST_F(SeveralHosts, AnotherHostDoesNotChooseTheFolder) {
    listen();
    const std::string before = status()["ckptdir"];
    FakeRelay other = relay();
    ASSERT_TRUE(other.join("other"));
    ASSERT_TRUE(other.say({{"type", "ask"},
                           {"client", 1},
                           {"request", {{"verb", "hello"}, {"ckptdir", "/somewhere/else"}, {"keep", 3}}}}));
    EXPECT_EQ(other.hear("answer")["event"]["event"], "done");
    EXPECT_EQ(status()["ckptdir"], before);
    EXPECT_EQ(status()["keep"], 3);
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
