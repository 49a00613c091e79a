// The rules for CID and np, one by one.
#include <gtest/gtest.h>

#include "coordinator/group.h"

namespace cairn::coordinator {
namespace {

Join join_of(const std::string& cid, std::uint32_t np, std::vector<std::string> uids,
             std::set<std::int32_t> parts = {}) {
    Join join;
    join.cid = cid;
    join.np = np;
    join.uids = std::move(uids);
    join.parts = std::move(parts);
    join.all_parts = {{0, "here", "/dev/pts/0", 2}, {1, "there", "", 1}};
    return join;
}

ExitCode code_of(const Result<>& result) {
    return result ? ExitCode::ok : result.error().code;
}

TEST(Group, IsNobodysAtFirst) {
    const Group group;
    EXPECT_EQ(group.cid(), "?");
    EXPECT_EQ(group.np(), 0U);
    EXPECT_TRUE(group.may_launch());
}

TEST(Group, CidIsTheFirstProcess) {
    Group group;
    EXPECT_TRUE(group.registered("a-1-1"));
    EXPECT_TRUE(group.registered("a-2-2"));
    EXPECT_EQ(group.cid(), "a-1-1");
    EXPECT_EQ(group.np(), 2U);
    EXPECT_FALSE(group.left("a-1-1"));
    EXPECT_EQ(group.cid(), "a-1-1") << "the CID outlives the process that gave it";
    EXPECT_TRUE(group.left("a-2-2"));
    EXPECT_EQ(group.cid(), "?");
    EXPECT_FALSE(group.left("a-2-2"));
}

TEST(Group, RestartGivesCidAndNp) {
    Group group;
    ASSERT_TRUE(group.join(1, join_of("c", 3, {"a", "b"}, {0})));
    EXPECT_EQ(group.cid(), "c");
    EXPECT_EQ(group.np(), 3U);
    EXPECT_FALSE(group.complete());
    ASSERT_EQ(group.missing().size(), 1U);
    EXPECT_EQ(group.missing()[0].host, "there");
    ASSERT_TRUE(group.join(2, join_of("c", 3, {"d"}, {1})));
    EXPECT_TRUE(group.complete());
    EXPECT_TRUE(group.missing().empty());
}

TEST(Group, StrangersAreRefusedWhileARestartIsPending) {
    Group group;
    ASSERT_TRUE(group.join(1, join_of("c", 3, {"a"})));
    EXPECT_EQ(code_of(group.may_launch()), ExitCode::refused);
    EXPECT_EQ(code_of(group.join(2, join_of("other", 3, {"x"}))), ExitCode::refused);
    EXPECT_EQ(code_of(group.join(2, join_of("c", 4, {"x"}))), ExitCode::refused);
    EXPECT_EQ(code_of(group.join(2, join_of("c", 3, {"a"}))), ExitCode::refused) << "the same uID twice";
    EXPECT_EQ(code_of(group.join(2, join_of("c", 3, {"x", "x"}))), ExitCode::refused);
    EXPECT_EQ(code_of(group.join(2, join_of("c", 3, {"x", "y", "z"}))), ExitCode::refused) << "more than np";
    EXPECT_EQ(group.joined(), 1U) << "a refusal leaves the restart as it was";
    EXPECT_FALSE(group.registered("stranger"));
}

TEST(Group, NonsenseIsRefused) {
    Group group;
    EXPECT_EQ(code_of(group.join(1, join_of("?", 1, {"a"}))), ExitCode::usage);
    EXPECT_EQ(code_of(group.join(1, join_of("", 1, {"a"}))), ExitCode::usage);
    EXPECT_EQ(code_of(group.join(1, join_of("c", 0, {"a"}))), ExitCode::usage);
    EXPECT_EQ(code_of(group.join(1, join_of("c", 1, {}))), ExitCode::usage);
    EXPECT_EQ(group.cid(), "?");
}

TEST(Group, RestartIntoARunningGroupIsRefused) {
    Group group;
    group.registered("c");
    EXPECT_EQ(code_of(group.join(1, join_of("c", 2, {"a"}))), ExitCode::refused);
    EXPECT_EQ(code_of(group.join(1, join_of("d", 2, {"a"}))), ExitCode::refused);
    EXPECT_TRUE(group.may_launch()) << "a new program joins a running group";
}

TEST(Group, RestartWaitsForNoProgramThatIsBeingLaunched) {
    Group group;
    group.set_starting(1);
    EXPECT_EQ(code_of(group.join(1, join_of("c", 2, {"a"}))), ExitCode::refused);
    group.set_starting(0);
    EXPECT_TRUE(group.join(1, join_of("c", 2, {"a"})));
}

TEST(Group, WithdrawalBeforeTheBarrier) {
    Group group;
    ASSERT_TRUE(group.join(1, join_of("c", 3, {"a"}, {0})));
    ASSERT_TRUE(group.join(2, join_of("c", 3, {"b"}, {1})));
    EXPECT_EQ(group.withdraw(2), Group::Withdrawal::awaited);
    EXPECT_EQ(group.cid(), "c");
    EXPECT_EQ(group.missing().size(), 1U);
    EXPECT_TRUE(group.join(3, join_of("c", 3, {"b"}, {1}))) << "the part may be started again";
    EXPECT_EQ(group.withdraw(3), Group::Withdrawal::awaited);
    EXPECT_EQ(group.withdraw(1), Group::Withdrawal::awaited);
    EXPECT_EQ(group.cid(), "?");
    EXPECT_EQ(group.withdraw(1), Group::Withdrawal::nothing);
}

TEST(Group, WithdrawalAfterTheBarrierEndsTheRestart) {
    Group group;
    ASSERT_TRUE(group.join(1, join_of("c", 2, {"a"})));
    ASSERT_TRUE(group.join(2, join_of("c", 2, {"b"})));
    ASSERT_TRUE(group.complete());
    EXPECT_EQ(group.withdraw(1), Group::Withdrawal::over);
    EXPECT_EQ(group.cid(), "?");
    EXPECT_EQ(group.withdraw(2), Group::Withdrawal::nothing);
}

TEST(Group, RunsWhenAllAreReady) {
    Group group;
    ASSERT_TRUE(group.join(1, join_of("c", 2, {"a"})));
    EXPECT_FALSE(group.ready(1, {"a"})) << "not before the barrier";
    ASSERT_TRUE(group.join(2, join_of("c", 2, {"b"})));
    EXPECT_EQ(code_of(group.ready(1, {"b"})), ExitCode::refused) << "another client's process";
    ASSERT_TRUE(group.ready(1, {"a"}));
    EXPECT_FALSE(group.all_ready());
    EXPECT_TRUE(group.registered("a"));
    ASSERT_TRUE(group.ready(2, {"b"}));
    EXPECT_TRUE(group.registered("b"));
    EXPECT_TRUE(group.all_ready());
    group.released();
    EXPECT_EQ(group.state(), Group::State::running);
    EXPECT_EQ(group.cid(), "c");
    EXPECT_EQ(group.np(), 2U);
    EXPECT_TRUE(group.registered("child")) << "a fork joins";
    EXPECT_EQ(group.withdraw(1), Group::Withdrawal::nothing) << "the tool may go now";
    group.left("a");
    group.left("b");
    EXPECT_TRUE(group.left("child"));
    EXPECT_EQ(group.cid(), "?");
}

TEST(Group, AllGoneBeforeRelease) {
    Group group;
    ASSERT_TRUE(group.join(1, join_of("c", 1, {"a"})));
    group.registered("a");
    group.left("a");
    ASSERT_TRUE(group.ready(1, {"a"}));
    group.released();
    EXPECT_EQ(group.cid(), "?");
}

}  // namespace
}  // namespace cairn::coordinator
