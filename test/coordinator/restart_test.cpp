// The restart barrier over the socket.
#include <unistd.h>

#include "support.h"

namespace cairn::coordinator_test {
namespace {

Json join_of(int np, std::vector<std::string> uids, int part) {
    Json members = Json::array();
    for (const std::string& uid : uids) members.push_back({{"uid", uid}, {"pid", 1}});
    return {{"verb", "restart-join"},
            {"cid", "c-1-1"},
            {"np", np},
            {"generation", 1},
            {"directory", "/nowhere"},
            {"part", part},
            {"parts",
             {{{"number", 0}, {"host", "h"}, {"terminal", "/dev/pts/1"}, {"processes", 1}},
              {{"number", 1}, {"host", "h"}, {"terminal", "/dev/pts/2"}, {"processes", 1}}}},
            {"members", members}};
}

Json ready_of(const std::string& uid, int pid, const FakeProgram& process, int slot) {
    return {{"verb", "restart-ready"},
            {"members",
             {{{"uid", uid}, {"pid", pid}, {"real", process.pid()}, {"slot", slot}, {"region_at", 4096}}}}};
}

TEST_F(CoordinatorTest, PartsWaitForEachOther) {
    start();
    Client first = client(), second = client();
    first.send(join_of(2, {"c-100-5"}, 0).dump());
    const Json waiting = first.until("waiting");
    ASSERT_EQ(waiting["event"], "waiting") << waiting;
    EXPECT_EQ(waiting["have"], 1);
    EXPECT_EQ(waiting["np"], 2);
    EXPECT_EQ(waiting["missing"][0]["terminal"], "/dev/pts/2");
    EXPECT_EQ(status()["state"], "restarting");
    EXPECT_EQ(status()["cid"], "c-1-1");
    EXPECT_EQ(ask({{"verb", "hello"}})["code"], 3);
    EXPECT_EQ(ask({{"verb", "checkpoint"}})["code"], 3);

    second.send(join_of(2, {"c-101-6"}, 1).dump());
    EXPECT_EQ(second.until("go")["event"], "go");
    EXPECT_EQ(first.until("go")["event"], "go");

    FakeProgram one(region(), {.registers = false, .library = true}),
        two(region(), {.registers = false, .library = true});
    first.send(ready_of("c-100-5", 100, one, 7).dump());
    second.send(ready_of("c-101-6", 101, two, 3).dump());
    EXPECT_EQ(first.until("release")["event"], "release");
    EXPECT_EQ(second.until("release")["event"], "release");
    EXPECT_EQ(first.ask({{"verb", "restart-done"}})["event"], "done");
    EXPECT_EQ(status()["state"], "running");
    EXPECT_EQ(status()["cid"], "c-1-1");
    EXPECT_EQ(status()["processes"], 2);
    first.close();
    second.close();
    EXPECT_EQ(status()["processes"], 2);

    Client asking = client();
    ASSERT_EQ(asking.ask({{"verb", "list"}})["event"], "done");
    EXPECT_EQ(asking.events[0]["pid"], 101);
    EXPECT_EQ(asking.events[0]["real"], two.pid());
    EXPECT_EQ(asking.events[0]["uid"], "c-101-6");
    EXPECT_EQ(asking.events[0]["restored"], true);

    // The same computation a second time, and another one.
    EXPECT_EQ(ask(join_of(2, {"c-100-5"}, 0))["code"], 3);
    // Another coordinator finds the restored ones by their virtual ids.
    kill_coordinator();
    start();
    EXPECT_EQ(status()["cid"], "c-1-1");
    EXPECT_EQ(status()["processes"], 2);
    one.end();
    two.end();
    EXPECT_TRUE(eventually([&] { return status()["cid"] == "?"; }));
}

TEST_F(CoordinatorTest, RefusalsOfARestart) {
    start();
    Client first = client();
    first.send(join_of(3, {"a"}, 0).dump());
    ASSERT_EQ(first.until("waiting")["event"], "waiting");
    Json other = join_of(3, {"b"}, 1);
    other["cid"] = "d";
    EXPECT_EQ(ask(other)["code"], 3);
    EXPECT_EQ(ask(join_of(4, {"b"}, 1))["code"], 3);
    EXPECT_EQ(ask(join_of(3, {"a"}, 1))["code"], 3);
    EXPECT_EQ(ask(join_of(3, {"b", "c", "d"}, 1))["code"], 3);
    EXPECT_EQ(status()["restart"]["have"], 1);
}

TEST_F(CoordinatorTest, RestartThatGoesAwayIsAwaitedAgain) {
    start();
    Client first = client(), second = client();
    first.send(join_of(3, {"a"}, 0).dump());
    ASSERT_EQ(first.until("waiting")["have"], 1);
    second.send(join_of(3, {"b"}, 1).dump());
    ASSERT_EQ(first.until("waiting")["have"], 2);
    second.close();
    EXPECT_EQ(first.until("waiting")["have"], 1);
    first.close();
    EXPECT_TRUE(eventually([&] { return status()["cid"] == "?"; }));
    EXPECT_EQ(ask({{"verb", "hello"}})["event"], "done");
}

TEST_F(CoordinatorTest, RestartThatDiesAfterTheBarrierEndsAll) {
    start();
    Client first = client(), second = client();
    first.send(join_of(2, {"a"}, 0).dump());
    ASSERT_EQ(first.until("waiting")["event"], "waiting");
    second.send(join_of(2, {"b"}, 1).dump());
    ASSERT_EQ(second.until("go")["event"], "go");
    second.close();
    EXPECT_EQ(first.until("failed")["code"], 1);
    EXPECT_EQ(status()["cid"], "?");
}

TEST_F(CoordinatorTest, SlotOfALivingProcessIsNotTaken) {
    start();
    Client first = client();
    FakeProgram rebuilt(region(), {.registers = false});
    first.send(join_of(1, {"c-1-1"}, 0).dump());
    ASSERT_EQ(first.until("go")["event"], "go");
    FakeProgram intruder = program();  // never asked
    ASSERT_TRUE(has_members(1));
    first.send(ready_of("c-1-1", 1, rebuilt, 0).dump());
    EXPECT_EQ(first.until("failed")["event"], "failed");
}

TEST_F(CoordinatorTest, RestartWaitsForALaunchUnderWay) {
    start();
    FakeProgram starting(region(), {.registers = false});
    Client hello = client();
    ASSERT_EQ(hello.ask({{"verb", "hello"}})["event"], "done");
    const Json refused = ask(join_of(1, {"a"}, 0));
    EXPECT_EQ(refused["code"], 3) << refused;
}

}  // namespace
}  // namespace cairn::coordinator_test
