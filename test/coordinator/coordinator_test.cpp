// Membership, checkpoints, the ends of a session.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "support.h"

namespace cairn::coordinator_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

TEST_F(CoordinatorTest, CidIsTheFirstsAndEndsWithTheLast) {
    start();
    EXPECT_EQ(status()["cid"], "?");
    FakeProgram first = program();
    ASSERT_TRUE(has_members(1));
    const std::string cid = status()["cid"];
    EXPECT_NE(cid.find("-" + std::to_string(first.pid()) + "-"), std::string::npos) << cid;
    FakeProgram second = program();
    ASSERT_TRUE(has_members(2));
    first.end();
    ASSERT_TRUE(has_members(1));
    EXPECT_EQ(status()["cid"], cid);
    second.end();
    ASSERT_TRUE(has_members(0));
    EXPECT_EQ(status()["cid"], "?");
}

TEST_F(CoordinatorTest, ListTellsOfEach) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    Client asking = client();
    const Json done = asking.ask({{"verb", "list"}, {"id", "x"}});
    ASSERT_EQ(done["event"], "done");
    ASSERT_EQ(asking.events.size(), 1U);
    EXPECT_EQ(asking.events[0]["pid"], one.pid());
    EXPECT_EQ(asking.events[0]["parent"], ::getpid());
    EXPECT_EQ(asking.events[0]["state"], "running");
    EXPECT_EQ(asking.events[0]["id"], "x");
}

// As a launcher is before its exec. It is called what name_newcomer() is about to call it.
TEST_F(CoordinatorTest, WhoHasNoNameYetIsNotTakenForAnother) {
    start();
    const FakeProgram one(region(), {.nameless = true});
    ASSERT_TRUE(has_members(1));
    Client asking = client();
    ASSERT_EQ(asking.ask({{"verb", "list"}})["event"], "done");
    ASSERT_EQ(asking.events.size(), 1U);
    EXPECT_EQ(asking.events[0]["real"], one.pid());
    EXPECT_EQ(asking.events[0]["pid"], one.pid() + FakeProgram::away);
}

TEST_F(CoordinatorTest, FoldersAreOursAlone) {
    start();
    struct stat info {};
    ASSERT_EQ(::stat(session_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
    ASSERT_EQ(::stat(region().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    EXPECT_GE(info.st_blocks * 512, info.st_size) << "a hole could become SIGBUS in a program";
}

TEST_F(CoordinatorTest, SecondOneIsRefused) {
    start();
    const pid_t first = coordinator_;
    coordinator_ = -1;
    start();
    EXPECT_EQ(wait_for_exit(), 3);
    coordinator_ = -1;
    start({"--daemon"});
    EXPECT_EQ(wait_for_exit(), 0) << "with --daemon it is enough that one serves";
    EXPECT_EQ(status()["pid"], first);
    coordinator_ = first;
}

TEST_F(CoordinatorTest, CheckpointIsPublished) {
    start();
    FakeProgram one = program(), two = program();
    ASSERT_TRUE(has_members(2));
    Client asking = client();
    Json done = asking.ask({{"verb", "checkpoint"}});
    ASSERT_EQ(done["event"], "done") << done;
    EXPECT_EQ(done["processes"], 2);
    EXPECT_EQ(done["generation"], 1);
    EXPECT_EQ(done["notes"][0], "a note");
    const std::string folder = done["directory"];
    EXPECT_EQ(folder, ckptdir() + "/" + std::string(done["cid"]) + "/1");
    EXPECT_TRUE(fs::exists(folder + "/manifest.json"));
    EXPECT_EQ(fs::canonical(ckptdir() + "/latest"), fs::canonical(folder));
    EXPECT_EQ(ask({{"verb", "checkpoint"}})["generation"], 2);
    EXPECT_EQ(status()["last"]["generation"], 2);
    std::vector<std::string> phases;
    for (const Json& event : asking.events)
        if (event["event"] == "phase") phases.push_back(event["name"]);
    EXPECT_EQ(phases, (std::vector<std::string>{"prepare", "stop", "collect", "objects", "fork", "resume",
                                                "write", "sync", "publish", "prune"}));
}

TEST_F(CoordinatorTest, CheckpointOfNobodyIsRefused) {
    start();
    const Json failed = ask({{"verb", "checkpoint"}});
    EXPECT_EQ(failed["event"], "failed");
    EXPECT_EQ(failed["code"], 3);
}

TEST_F(CoordinatorTest, OldGenerationsAreRemoved) {
    start({"--keep", "2"});
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    for (int i = 1; i <= 5; ++i) ASSERT_EQ(ask({{"verb", "checkpoint"}})["generation"], i);
    EXPECT_EQ(files_matching("/manifest.json"), 2U);
    EXPECT_TRUE(fs::exists(ckptdir() + "/latest/manifest.json"));
}

TEST_F(CoordinatorTest, SecondCheckpointFollowsTheFirst) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    worker("wait write");
    hold();
    Client first = client(), second = client(), third = client();
    first.send(R"({"verb":"checkpoint"})");
    ASSERT_TRUE(eventually(
        [&] { return status()["checkpoint"].is_object() && status()["checkpoint"]["phase"] == "write"; }));
    second.send(R"({"verb":"checkpoint"})");
    third.send(R"({"verb":"checkpoint"})");
    EXPECT_EQ(second.next()["event"], "queued");
    EXPECT_EQ(third.next()["event"], "queued");
    let_go();
    EXPECT_EQ(first.until("done")["generation"], 1);
    EXPECT_EQ(second.until("done")["generation"], 2);
    EXPECT_EQ(third.until("done")["generation"], 2) << "all who asked meanwhile share the next";
}

TEST_F(CoordinatorTest, AskedTogetherAnsweredTogether) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    ::kill(coordinator_, SIGSTOP);
    Client first = client(), second = client();
    first.send(R"({"verb":"checkpoint"})");
    second.send(R"({"verb":"checkpoint"})");
    ::kill(coordinator_, SIGCONT);
    const int a = first.until("done")["generation"], b = second.until("done")["generation"];
    EXPECT_LE(std::max(a, b), 2);
}

TEST_F(CoordinatorTest, KillAfterCheckpoint) {
    start();
    FakeProgram one = program(), two = program();
    ASSERT_TRUE(has_members(2));
    const Json done = ask({{"verb", "checkpoint"}, {"kill", true}});
    ASSERT_EQ(done["event"], "done") << done;
    EXPECT_EQ(done["killed"], true);
    EXPECT_FALSE(one.lives());
    EXPECT_FALSE(two.lives());
    EXPECT_EQ(status()["cid"], "?");
}

TEST_F(CoordinatorTest, KillEndsAll) {
    start();
    FakeProgram one = program(), two = program();
    ASSERT_TRUE(has_members(2));
    EXPECT_EQ(ask({{"verb", "kill"}})["killed"], 2);
    EXPECT_FALSE(one.lives());
    EXPECT_EQ(ask({{"verb", "kill"}})["killed"], 0);
}

TEST_F(CoordinatorTest, IntervalTakesThemByItself) {
    start({"--interval", "0.1"});
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(status()["last"].is_null()) << "nobody is there";
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    EXPECT_TRUE(
        eventually([&] { return status()["last"].is_object() && status()["last"]["generation"] >= 2; }));
    ASSERT_EQ(ask({{"verb", "interval"}, {"seconds", 0}})["event"], "done");
    ASSERT_TRUE(eventually([&] { return status()["checkpoint"].is_null(); }));
    const int last = status()["last"]["generation"];
    std::this_thread::sleep_for(300ms);
    EXPECT_EQ(status()["last"]["generation"], last);
}

// A checkpoint that takes longer than the interval: the next one isn't lost without a word, and an interval
// that is known to be too short is refused.
TEST_F(CoordinatorTest, IntervalThatIsShorterThanACheckpoint) {
    hold();
    worker("wait write");
    start({"--interval", "0.1"});
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    ASSERT_TRUE(eventually([&] { return status()["intervals_missed"] >= 2; }));
    const Json meanwhile = status();
    EXPECT_EQ(meanwhile["interval_trouble"], "the checkpoint before it isn't over yet");
    EXPECT_TRUE(meanwhile["last"].is_null());
    EXPECT_FALSE(meanwhile["checkpoint"].is_null()) << "only one at a time: that one goes on";
    let_go();
    ASSERT_TRUE(eventually([&] { return status()["last"].is_object(); }));
    // That one took 0.2 s at least.
    const Json refused = ask({{"verb", "interval"}, {"seconds", 0.001}});
    EXPECT_EQ(refused["event"], "failed") << refused;
    EXPECT_NE(refused.value("reason", "").find("can't be kept: the last checkpoint took"), std::string::npos)
        << refused;
    EXPECT_EQ(status()["interval"], 0.1) << "it stays as it was";
    // What is kept again isn't complained of any more.
    ASSERT_EQ(ask({{"verb", "interval"}, {"seconds", 2}})["event"], "done");
    EXPECT_TRUE(eventually([&] { return status()["interval_trouble"] == ""; }));
}

TEST_F(CoordinatorTest, QuitLeavesProgramsAlone) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    const std::string cid = status()["cid"];
    EXPECT_EQ(ask({{"verb", "quit"}})["processes"], 1);
    EXPECT_EQ(wait_for_exit(), 0);
    EXPECT_TRUE(one.lives());
    EXPECT_FALSE(client().connected());
    start();
    EXPECT_EQ(status()["processes"], 1);
    EXPECT_EQ(status()["cid"], cid);
}

TEST_F(CoordinatorTest, TermIsQuit) {
    start();
    ::kill(coordinator_, SIGTERM);
    EXPECT_EQ(wait_for_exit(), 0);
    EXPECT_FALSE(fs::exists(session_ + "/socket"));
    EXPECT_FALSE(fs::exists(region())) << "nobody uses it";
}

TEST_F(CoordinatorTest, AutomaticOneEndsAfterItsPrograms) {
    start({"--auto", "--linger", "0.3"});
    ASSERT_EQ(ask({{"verb", "hello"}})["region"],
              region());  // our pid counts as starting until we register or end
    std::this_thread::sleep_for(600ms);
    EXPECT_TRUE(coordinator_lives()) << "a program was told that it may start";
    kill_coordinator();
    start({"--auto", "--linger", "1.5"});
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    std::this_thread::sleep_for(2s);
    EXPECT_TRUE(coordinator_lives());
    one.end();
    EXPECT_EQ(wait_for_exit(), 0);
}

// A restart asks who is there, and joins then.
TEST_F(CoordinatorTest, AutomaticOneStaysForWhoIsSayingSomething) {
    start({"--auto", "--linger", "0.3"});
    {
        Client asking = client();
        for (int i = 0; i < 10; ++i) {
            ASSERT_EQ(asking.ask({{"verb", "list"}})["event"], "done") << i;
            std::this_thread::sleep_for(100ms);
        }
    }
    EXPECT_EQ(wait_for_exit(), 0);
}

TEST_F(CoordinatorTest, SubscriberHearsOfEverything) {
    start();
    Client hearing = client();
    ASSERT_EQ(hearing.ask({{"verb", "subscribe"}})["event"], "done");
    FakeProgram one = program();
    EXPECT_EQ(hearing.until("note")["event"], "note");
    ASSERT_EQ(ask({{"verb", "checkpoint"}})["event"], "done");
    const Json done = hearing.until("done");
    EXPECT_EQ(done["subscribed"], true);
    EXPECT_EQ(done["generation"], 1);
}

TEST_F(CoordinatorTest, LockThatIsOnlyAskedForIsNoCoordinator) {
    start();
    const Fd asked(::open((session_ + "/lock").c_str(), O_RDONLY));
    kill_coordinator();
    ASSERT_EQ(::flock(asked.get(), LOCK_SH), 0);
    std::thread later([&] {
        std::this_thread::sleep_for(300ms);
        ::flock(asked.get(), LOCK_UN);
    });
    start();
    later.join();
    EXPECT_TRUE(coordinator_lives());
}

}  // namespace
}  // namespace cairn::coordinator_test
