// The coordinator killed, its worker failing in every way, clients that behave badly.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/region_ops.h"
#include "support.h"

namespace cairn::coordinator_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Mapped {
  public:
    explicit Mapped(const std::string& path) {
        const Fd fd(::open(path.c_str(), O_RDWR));
        at_ = ::mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    }
    ~Mapped() { ::munmap(at_, sizeof(Region)); }
    Region* operator->() const { return static_cast<Region*>(at_); }
    Region& operator*() const { return *static_cast<Region*>(at_); }

  private:
    void* at_;
};

TEST_F(CoordinatorTest, KilledOneIsFollowedByOneThatKnowsAll) {
    start({"--interval", "77", "--keep", "9"});
    FakeProgram one = program(), two = program();
    ASSERT_TRUE(has_members(2));
    const std::string cid = status()["cid"];
    ASSERT_EQ(ask({{"verb", "checkpoint"}})["event"], "done");
    kill_coordinator();
    two.end();                      // gone while nobody looked
    FakeProgram three = program();  // born while nobody looked
    start();
    EXPECT_EQ(status()["cid"], cid);
    EXPECT_EQ(status()["processes"], 2);
    EXPECT_EQ(status()["interval"], 77.0);
    EXPECT_EQ(status()["keep"], 9);
    EXPECT_EQ(status()["generation_of_coordinator"], 2);
    EXPECT_EQ(ask({{"verb", "checkpoint"}})["generation"], 2);
}

TEST_F(CoordinatorTest, RegionIsNeverTruncatedUnderAProgram) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    const Mapped region(this->region());
    kill_coordinator();
    one.end();
    start();  // the session is empty: a new region
    EXPECT_EQ(region->magic, region_magic) << "ours is still whole";
    EXPECT_EQ(status()["processes"], 0);
    EXPECT_EQ(status()["cid"], "?");
    EXPECT_EQ(status()["generation_of_coordinator"], 1);
}

TEST_F(CoordinatorTest, DamagedRegionIsReplaced) {
    start();
    kill_coordinator();
    ASSERT_EQ(::truncate(region().c_str(), 100), 0);
    start();
    EXPECT_EQ(status()["event"], "done");
}

TEST_F(CoordinatorTest, ProcessWithoutASlotIsFound) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    kill_coordinator();
    FakeProgram silent(region(), {.registers = false, .library = true});
    FakeProgram tool(region(), {.registers = false, .library = false});
    start();
    EXPECT_TRUE(has_members(2))
        << "the silent one, and not the tool that maps the region without the library";
}

TEST_F(CoordinatorTest, BirthWithoutAParentIsForgotten) {
    start();
    FakeProgram one = program();
    FakeProgram parent(region(), {.bears = true});
    ASSERT_TRUE(eventually([&] { return status()["births"] == 1; }));
    parent.end();
    EXPECT_TRUE(eventually([&] { return status()["births"] == 0; }));
    EXPECT_EQ(status()["processes"], 1);
}

TEST_F(CoordinatorTest, PidOfAStrangerIsNoMember) {
    start();
    const Mapped region(this->region());
    FakeProgram stranger(this->region(), {.registers = false});
    const std::int32_t index = claim_slot(*region, KernelId(1));
    region->slots[index].born_ns = 1;  // long before the stranger began
    name_slot(*region, index, KernelId(stranger.pid()));
    region->slots[index].state = SlotState::running;
    announce_change(*region);
    EXPECT_TRUE(eventually([&] { return region->slots[index].state.load() == SlotState::free; }));
    EXPECT_EQ(status()["processes"], 0);
}

TEST_F(CoordinatorTest, ManyBirthsAndDeaths) {
    start();
    FakeProgram stays = program();
    for (int i = 0; i < 300; ++i) const FakeProgram passing = program();
    EXPECT_TRUE(has_members(1));
    const Mapped region(this->region());
    EXPECT_TRUE(eventually([&] {
        int used = 0;
        for (const Slot& slot : region->slots) used += slot.state.load() != SlotState::free ? 1 : 0;
        return used == 1;
    }));
}

TEST_F(CoordinatorTest, NamedWhoCannotBeSaved) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    const Mapped region(this->region());
    std::strcpy(region->slots[find_slot(*region, KernelId(one.pid()))].foreign, "a static program");
    const Json failed = ask({{"verb", "checkpoint"}});
    EXPECT_EQ(failed["code"], 3);
    EXPECT_NE(std::string(failed["reason"]).find("static program"), std::string::npos);
}

class WorkerFault : public CoordinatorTest,
                    public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(WorkerFault, GivesUpAndKeepsTheLast) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    ASSERT_EQ(ask({{"verb", "checkpoint"}})["generation"], 1);
    worker(std::string(std::get<0>(GetParam())) + " " + std::get<1>(GetParam()));
    const Json failed = ask({{"verb", "checkpoint"}, {"timeout", 3}});
    ASSERT_EQ(failed["event"], "failed") << failed;
    EXPECT_FALSE(std::string(failed["reason"]).empty());
    if (std::get<0>(GetParam()) == std::string("hang")) {
        EXPECT_EQ(failed["code"], 6);
    }
    if (std::get<0>(GetParam()) == std::string("words")) {
        EXPECT_NE(std::string(failed["reason"]).find("last words"), std::string::npos);
    }
    if (std::get<0>(GetParam()) == std::string("full")) {
        EXPECT_NE(std::string(failed["reason"]).find("free"), std::string::npos) << failed;
    }
    EXPECT_EQ(Mapped(region())->capture.load(), 0U);
    EXPECT_EQ(files_matching(".partial"), 0U);
    EXPECT_EQ(files_matching("/manifest.json"), 1U);
    EXPECT_TRUE(fs::exists(ckptdir() + "/latest/manifest.json"));
    EXPECT_TRUE(one.lives());
    worker("ok");
    EXPECT_EQ(ask({{"verb", "checkpoint"}})["event"], "done");
}

INSTANTIATE_TEST_SUITE_P(Phases, WorkerFault,
                         testing::Values(std::tuple("die", "stop"), std::tuple("die", "write"),
                                         std::tuple("fail", "fork"), std::tuple("words", "collect"),
                                         std::tuple("full", "write"), std::tuple("hang", "stop"),
                                         std::tuple("hang", "write")));

TEST_F(CoordinatorTest, KilledInEachPhase) {
    for (const std::string phase : {"stop", "collect", "objects", "fork", "resume", "write", "sync"}) {
        start();
        FakeProgram one = program();
        ASSERT_TRUE(has_members(1));
        worker("wait " + phase);
        hold();
        Client asking = client();
        asking.send(R"({"verb":"checkpoint"})");
        ASSERT_TRUE(eventually(
            [&] { return status()["checkpoint"].is_object() && status()["checkpoint"]["phase"] == phase; }));
        kill_coordinator();
        EXPECT_TRUE(asking.until("done").is_null()) << "the end of the connection";
        start();
        EXPECT_EQ(status()["processes"], 1) << phase;
        EXPECT_EQ(Mapped(region())->capture.load(), 0U) << "copies of the processes end";
        worker("ok");
        ASSERT_EQ(ask({{"verb", "checkpoint"}})["event"], "done") << phase;
        EXPECT_EQ(files_matching(".partial"), 0U) << phase;
        kill_coordinator();
        let_go();
    }
}

TEST_F(CoordinatorTest, FolderThatCannotBeMade) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    const Json failed = ask({{"verb", "checkpoint"}, {"ckptdir", "/proc/nowhere"}});
    EXPECT_EQ(failed["event"], "failed");
    EXPECT_NE(std::string(failed["reason"]).find("/proc/nowhere"), std::string::npos);
}

TEST_F(CoordinatorTest, LargeManifestIsOneMessage) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    worker("large 150000");
    EXPECT_EQ(ask({{"verb", "checkpoint"}})["event"], "done");
}

TEST_F(CoordinatorTest, GarbageIsAnswered) {
    start();
    Client bad = client();
    for (const std::string text : {"hello", "[]", "{", "{\"verb\":3}", "{}", "\xff\xfe"}) {
        ASSERT_TRUE(bad.send(text));
        EXPECT_EQ(bad.next()["code"], 2) << text;
    }
    EXPECT_TRUE(status().is_object());
    // Fields of wrong types are no more than wrong.
    for (const char* verb :
         {"hello", "checkpoint", "interval", "restart-join", "restart-ready", "restart-done"}) {
        for (const Json& value :
             {Json(1), Json("x"), Json(Json::array({1, "a", nullptr})), Json(nullptr), Json(1e300)}) {
            Json request = {{"verb", verb}, {"id", 1}};
            for (const char* field : {"ckptdir", "interval", "keep", "kill", "timeout", "seconds", "cid",
                                      "np", "part", "parts", "members", "directory", "generation", "more"})
                request[field] = value;
            Client one = client();
            ASSERT_TRUE(one.send(request.dump()));
            EXPECT_TRUE(one.until("waiting").is_object()) << request;
        }
    }
    EXPECT_TRUE(status().is_object());
}

TEST_F(CoordinatorTest, TooMuchGarbageIsCutOff) {
    start();
    Client bad = client();
    for (int i = 0; i < 100; ++i) bad.send("garbage");
    int answers = 0;
    while (bad.next().is_object()) ++answers;
    EXPECT_EQ(answers, 8);
    Client huge = client();
    const int size = 1 << 20;
    ::setsockopt(huge.fd(), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (huge.send(std::string(400 << 10, ' '))) {
        EXPECT_EQ(huge.next()["code"], 2);
    }
    const std::string deep = "{\"verb\":" + std::string(20000, '[') + "}";
    ASSERT_TRUE(huge.send(deep));
    EXPECT_EQ(huge.next()["code"], 2);
    EXPECT_TRUE(status().is_object());
}

TEST_F(CoordinatorTest, WhoNeverReadsHarmsNobody) {
    start();
    Client deaf = client();
    ASSERT_EQ(deaf.ask({{"verb", "subscribe"}})["event"], "done");
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 5; ++i) ASSERT_EQ(ask({{"verb", "checkpoint"}})["event"], "done");
    // Questions without end, no answer ever read.
    ::fcntl(deaf.fd(), F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 20000; ++i) deaf.send(R"({"verb":"status"})");
    EXPECT_TRUE(status().is_object());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
    EXPECT_TRUE(coordinator_lives());
}

TEST_F(CoordinatorTest, CrowdIsTurnedAway) {
    start();
    std::vector<Client> crowd;
    for (int i = 0; i < 128; ++i) {
        crowd.push_back(client());
        ASSERT_EQ(crowd.back().ask({{"verb", "subscribe"}})["event"], "done");
    }
    crowd.push_back(client());
    ASSERT_TRUE(crowd.back().connected());
    EXPECT_EQ(crowd.back().next()["code"], 3);
    crowd.clear();
    EXPECT_TRUE(eventually([&] { return status().is_object() && status()["event"] == "done"; }));
}

// Clients that were left open and want nothing keep nobody out: who has been silent for longest goes.
TEST_F(CoordinatorTest, IdleCrowdGivesWay) {
    start();
    Client asking = client();
    std::vector<Client> crowd;
    for (int i = 0; i < 300; ++i) {
        crowd.push_back(client());
        if (i % 20 == 0) {
            ASSERT_EQ(asking.ask({{"verb", "status"}})["event"], "done") << i;
        }
    }
    EXPECT_EQ(status()["event"], "done");
    EXPECT_TRUE(crowd.front().next().is_null());
    EXPECT_EQ(asking.ask({{"verb", "status"}})["event"], "done");
}

TEST_F(CoordinatorTest, OneRequestAtATime) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    worker("wait write");
    hold();
    Client asking = client();
    asking.send(R"({"verb":"checkpoint","id":1})");
    ASSERT_EQ(asking.next()["event"], "phase");
    asking.send(R"({"verb":"status","id":2})");
    const Json refused = asking.until("failed");
    EXPECT_EQ(refused["id"], 2);
    let_go();
    EXPECT_EQ(asking.until("done")["id"], 1);
}

TEST_F(CoordinatorTest, KillDuringACheckpoint) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    worker("wait write");
    hold();
    Client asking = client();
    asking.send(R"({"verb":"checkpoint"})");
    ASSERT_TRUE(eventually(
        [&] { return status()["checkpoint"].is_object() && status()["checkpoint"]["phase"] == "write"; }));
    EXPECT_EQ(ask({{"verb", "kill"}})["killed"], 1);
    EXPECT_EQ(asking.until("done")["event"], "failed");
    EXPECT_EQ(files_matching(".partial"), 0U);
    let_go();
}

TEST_F(CoordinatorTest, QuitDuringACheckpoint) {
    start();
    FakeProgram one = program();
    ASSERT_TRUE(has_members(1));
    worker("wait write");
    hold();
    Client asking = client();
    asking.send(R"({"verb":"checkpoint"})");
    ASSERT_TRUE(eventually(
        [&] { return status()["checkpoint"].is_object() && status()["checkpoint"]["phase"] == "write"; }));
    EXPECT_EQ(ask({{"verb", "quit"}})["processes"], 1);
    EXPECT_EQ(asking.until("done")["event"], "failed");
    EXPECT_EQ(wait_for_exit(), 0);
    EXPECT_EQ(files_matching(".partial"), 0U);
    EXPECT_TRUE(one.lives());
    let_go();
}

}  // namespace
}  // namespace cairn::coordinator_test
