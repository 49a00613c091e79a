// What stands in for an MPI launcher after a restart.
#include <gtest/gtest.h>

#include "restart/pmi/job.h"

namespace cairn::restart::pmi {
namespace {

// "0:cmd=barrier_out 1:cmd=barrier_out"
std::string words(const Job::Answers& answers) {
    std::string text;
    for (const auto& [rank, line] : answers) {
        if (!text.empty()) text += ' ';
        text += std::to_string(rank) + ':' + line.substr(0, line.size() - 1);
        EXPECT_TRUE(line.ends_with('\n'));
    }
    return text;
}

TEST(PmiJob, BarrierOpensWhenAllAreThereAndAgain) {
    Job job(3, 3);
    for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(words(job.hear(1, "cmd=barrier_in")), "");
        EXPECT_EQ(words(job.hear(0, "cmd=barrier_in")), "");
        EXPECT_EQ(words(job.hear(2, "cmd=barrier_in")),
                  "0:cmd=barrier_out 1:cmd=barrier_out 2:cmd=barrier_out");
    }
    EXPECT_TRUE(job.failure().empty());
}

TEST(PmiJob, WhoWaitsSinceBeforeTheCheckpointIsInTheBarrier) {
    Job job(3, 3);
    EXPECT_EQ(words(job.waits(0)), "");
    EXPECT_EQ(words(job.waits(2)), "");
    EXPECT_EQ(words(job.hear(1, "cmd=barrier_in")), "0:cmd=barrier_out 1:cmd=barrier_out 2:cmd=barrier_out");

    Job all(2, 2);
    EXPECT_EQ(words(all.waits(0)), "");
    EXPECT_EQ(words(all.waits(1)), "0:cmd=barrier_out 1:cmd=barrier_out");
}

TEST(PmiJob, WhoWaitsWhileOthersEndHasAskedForItsEnd) {
    Job job(2, 2);
    EXPECT_EQ(words(job.waits(0)), "");
    EXPECT_EQ(words(job.hear(1, "cmd=finalize")), "1:cmd=finalize_ack 0:cmd=finalize_ack");
    EXPECT_EQ(words(job.left(1)), "");
    EXPECT_EQ(words(job.left(0)), "");
    EXPECT_TRUE(job.failure().empty());
}

TEST(PmiJob, RanksThatHaveEndedHoldNobodyUp) {
    Job job(3, 3);
    EXPECT_EQ(words(job.hear(2, "cmd=finalize")), "2:cmd=finalize_ack");
    EXPECT_EQ(words(job.left(2)), "");
    EXPECT_EQ(words(job.hear(0, "cmd=barrier_in")), "");
    EXPECT_EQ(words(job.hear(1, "cmd=barrier_in")), "0:cmd=barrier_out 1:cmd=barrier_out");
    EXPECT_TRUE(job.failure().empty());
}

TEST(PmiJob, EndWithoutFinalizeFailsTheJob) {
    Job job(2, 2);
    EXPECT_EQ(words(job.left(1)), "");
    EXPECT_EQ(job.failure(), "has ended without MPI_Finalize");

    Job aborted(2, 2);
    EXPECT_EQ(words(aborted.hear(0, "cmd=abort exitcode=3")), "");
    EXPECT_EQ(aborted.failure(), "has aborted the job (exit code 3)");
    EXPECT_EQ(words(aborted.left(0)), "");
    EXPECT_EQ(aborted.exit_code(), 3);
}

TEST(PmiJob, ValuesArePutAndFound) {
    Job job(2, 8);
    EXPECT_EQ(words(job.hear(0, "cmd=put kvsname=kvs_1 key=address-0 value=a b=c d")),
              "0:cmd=put_result rc=0 msg=success");
    EXPECT_EQ(words(job.hear(1, "cmd=get kvsname=kvs_1 key=address-0")),
              "1:cmd=get_result rc=0 msg=success value=a b=c d");
    EXPECT_EQ(words(job.hear(1, "cmd=get kvsname=kvs_1 key=other")),
              "1:cmd=get_result rc=-1 msg=key_other_not_found value=unknown");
    EXPECT_EQ(words(job.hear(1, "cmd=get_universe_size")), "1:cmd=universe_size size=8");
    EXPECT_EQ(words(job.hear(1, "cmd=publish_name service=a port=b")),
              "1:cmd=publish_result rc=-1 msg=no_launcher_after_a_restart");
}

TEST(PmiJob, NonsenseIsAnswered) {
    Job job(1, 1);
    for (const char* line : {"", "=", "cmd", "cmd=", "===", "value=cmd=barrier_in", "\x01\xff=\x02"})
        EXPECT_EQ(job.hear(0, line).size(), 1U) << line;
}

}  // namespace
}  // namespace cairn::restart::pmi
