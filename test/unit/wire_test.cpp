// Messages of the protocols: what is written is read again, and what isn't a message is refused by its field.
#include <gtest/gtest.h>

#include "common/wire/capture.h"
#include "common/wire/events.h"
#include "common/wire/hosts.h"
#include "common/wire/requests.h"

namespace cairn::wire {
namespace {

template <class M>
std::string problem_of(const Json& said) {
    const auto read = unpack<M>(said);
    if (read) return "";
    EXPECT_EQ(read.error().code, ExitCode::usage);
    return read.error().what;
}

TEST(Wire, WhatIsWrittenIsRead) {
    const ReadyMember member{.uid = "u",
                             .pid = ProgramId(7),
                             .real = KernelId(70),
                             .slot = 3,
                             .user = 1000,
                             .region_at = ProgramAddress(1)};
    const Json said = pack(RestartReady{.members = {member, {.uid = "v"}}, .more = true});
    EXPECT_EQ(said["verb"], "restart-ready");
    const auto read = unpack<RestartReady>(said);
    ASSERT_TRUE(read) << read.error().what;
    ASSERT_EQ(read->members.size(), 2U);
    EXPECT_EQ(read->members[0].user, 1000U);
    EXPECT_EQ(read->members[0].slot, 3U);
    EXPECT_EQ(read->members[1].user, std::nullopt);
    EXPECT_TRUE(read->more);
    EXPECT_EQ(pack(*read), said);
}

TEST(Wire, WhatIsWrongIsNamed) {
    EXPECT_EQ(problem_of<AskRegion>({{"verb", "region"}}), "region: user is missing");
    EXPECT_EQ(problem_of<AskRegion>({{"user", -1}}), "region: user is -1, out of range");
    EXPECT_EQ(problem_of<AskRegion>({{"user", 0xffffffff}}), "region: user is 4294967295, out of range");
    EXPECT_EQ(problem_of<Hello>({{"ckptdir", 5}}), "hello: ckptdir is number, not a string");
    EXPECT_EQ(problem_of<Hello>({{"interval", -0.5}}), "hello: interval is -0.5, out of range");
    EXPECT_EQ(problem_of<SetInterval>({{"seconds", "5"}}), "interval: seconds is string, not a number");
    EXPECT_EQ(problem_of<RestartJoin>({{"cid", "c"}, {"np", 1}, {"members", {{{"uid", 5}}}}}),
              "restart-join: members[0].uid is number, not a string");
    EXPECT_EQ(problem_of<Report>({{"id", 1}, {"event", "x"}}), "report: event is string, not a map");
    EXPECT_NE(problem_of<Hello>(Json::array()), "");
    EXPECT_NE(problem_of<Hello>(nullptr), "");
}

TEST(Wire, UnknownFieldsAndNullAreSkipped) {
    const auto read = unpack<Hello>({{"verb", "hello"}, {"later", {1, 2}}, {"keep", nullptr}});
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->keep, std::nullopt);
    EXPECT_TRUE(unpack<Barrier>({{"name", "stopped"}})->data.is_object());
}

// The list and the status of a coordinator of another version are shown as far as they can be.
TEST(Wire, WhatIsGleanedNeedsNothing) {
    const auto status = glean<Status>({{"session", 5}, {"np", 3}, {"last", "x"}});
    EXPECT_EQ(status.session, "");
    EXPECT_EQ(status.np, 3);
    EXPECT_FALSE(status.last);
    EXPECT_EQ(glean<Process>("nothing").pid, ProgramId());
}

}  // namespace
}  // namespace cairn::wire
