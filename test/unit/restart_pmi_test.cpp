// What stands in for an MPI launcher after a restart.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "restart/pmi/pmi_one.h"
#include "restart/pmi/pmix.h"

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
    PmiOne job(3, 3);
    for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(words(job.hear(1, "cmd=barrier_in")), "");
        EXPECT_EQ(words(job.hear(0, "cmd=barrier_in")), "");
        EXPECT_EQ(words(job.hear(2, "cmd=barrier_in")),
                  "0:cmd=barrier_out 1:cmd=barrier_out 2:cmd=barrier_out");
    }
    EXPECT_TRUE(job.failure().empty());
}

TEST(PmiJob, WhoWaitsSinceBeforeTheCheckpointIsInTheBarrier) {
    PmiOne job(3, 3);
    EXPECT_EQ(words(job.waits(0)), "");
    EXPECT_EQ(words(job.waits(2)), "");
    EXPECT_EQ(words(job.hear(1, "cmd=barrier_in")), "0:cmd=barrier_out 1:cmd=barrier_out 2:cmd=barrier_out");

    PmiOne all(2, 2);
    EXPECT_EQ(words(all.waits(0)), "");
    EXPECT_EQ(words(all.waits(1)), "0:cmd=barrier_out 1:cmd=barrier_out");
}

TEST(PmiJob, WhoWaitsWhileOthersEndHasAskedForItsEnd) {
    PmiOne job(2, 2);
    EXPECT_EQ(words(job.waits(0)), "");
    EXPECT_EQ(words(job.hear(1, "cmd=finalize")), "1:cmd=finalize_ack 0:cmd=finalize_ack");
    EXPECT_EQ(words(job.left(1)), "");
    EXPECT_EQ(words(job.left(0)), "");
    EXPECT_TRUE(job.failure().empty());
}

TEST(PmiJob, RanksThatHaveEndedHoldNobodyUp) {
    PmiOne job(3, 3);
    EXPECT_EQ(words(job.hear(2, "cmd=finalize")), "2:cmd=finalize_ack");
    EXPECT_EQ(words(job.left(2)), "");
    EXPECT_EQ(words(job.hear(0, "cmd=barrier_in")), "");
    EXPECT_EQ(words(job.hear(1, "cmd=barrier_in")), "0:cmd=barrier_out 1:cmd=barrier_out");
    EXPECT_TRUE(job.failure().empty());
}

TEST(PmiJob, EndWithoutFinalizeFailsTheJob) {
    PmiOne job(2, 2);
    EXPECT_EQ(words(job.left(1)), "");
    EXPECT_EQ(job.failure(), "has ended without MPI_Finalize");

    PmiOne aborted(2, 2);
    EXPECT_EQ(words(aborted.hear(0, "cmd=abort exitcode=3")), "");
    EXPECT_EQ(aborted.failure(), "has aborted the job (exit code 3)");
    EXPECT_EQ(words(aborted.left(0)), "");
    EXPECT_EQ(aborted.exit_code(), 3);
}

TEST(PmiJob, ValuesArePutAndFound) {
    PmiOne job(2, 8);
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
    PmiOne job(1, 1);
    for (const char* line : {"", "=", "cmd", "cmd=", "===", "value=cmd=barrier_in", "\x01\xff=\x02"})
        EXPECT_EQ(job.hear(0, line).size(), 1U) << line;
}

TEST(PmiJob, LinesComeInAnyPieces) {
    PmiOne job(2, 2);
    std::string unread = "cmd=get_appnum\ncmd=barr";
    EXPECT_EQ(words(job.read(0, unread)), "0:cmd=appnum appnum=0");
    unread += "ier_in\n";
    EXPECT_EQ(words(job.read(0, unread)), "");
    EXPECT_EQ(unread, "");
}

using namespace std::string_literals;

std::string message(std::uint32_t tag, const std::string& body) {
    const std::array<std::uint32_t, 4> header{0, htonl(tag), htonl(static_cast<std::uint32_t>(body.size())),
                                              0};
    return std::string(reinterpret_cast<const char*>(header.data()), sizeof header) + body;
}

// As recorded between Open MPI 4.1.4's mpirun and a rank, PMIx 4.2.2.
const std::string fence = "\x02\x03\x02\x01\x02\x16"s + "1974009857\0"s + "\xfe\xff\xff\xff\x0f\x02\0"s;
const std::string finalize = "\x02\x05"s, done = "\x02\0"s;

Job::Answers say(Pmix& job, std::size_t rank, std::string text) {
    auto answers = job.read(rank, text);
    EXPECT_EQ(text, "");
    return answers;
}

TEST(PmixJob, FenceOpensWhenAllAreThereAndEachIsAnsweredWithItsTag) {
    Pmix job(2);
    EXPECT_TRUE(say(job, 1, message(109, fence)).empty());
    const auto answers = say(job, 0, message(117, fence));
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[0].bytes, message(117, done));
    EXPECT_EQ(answers[1].bytes, message(109, done));
}

TEST(PmixJob, WhoWaitsSinceBeforeTheCheckpointIsInTheFence) {
    Pmix job(2);
    job.awaits(1, {109});
    EXPECT_TRUE(job.waits(1).empty());
    const auto answers = say(job, 0, message(117, fence));
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[1].bytes, message(109, done));
    EXPECT_EQ(say(job, 1, message(114, finalize)).at(0).bytes, message(114, done));
    EXPECT_TRUE(job.left(1).empty());
    EXPECT_EQ(say(job, 0, message(120, finalize)).at(0).bytes, message(120, done));
    EXPECT_TRUE(job.left(0).empty());
    EXPECT_TRUE(job.failure().empty());
}

TEST(PmixJob, MessagesComeInAnyPieces) {
    Pmix job(1);
    std::string unread,
        bytes = message(100, "\x02\x0d\x02\0\x02\0"s) + message(101, "\x02\x0e"s) + message(102, fence);
    std::string answered;
    for (const char byte : bytes) {
        unread += byte;
        for (const auto& answer : job.read(0, unread)) answered += answer.bytes;
    }
    EXPECT_EQ(answered, message(100, done) + message(102, done));
}

TEST(PmixJob, WhatOnlyTheLauncherKnowsIsNotFound) {
    Pmix job(1);
    EXPECT_EQ(say(job, 0, message(100, "\x02\x04"s)).at(0).bytes, message(100, "\x02\x5b"s));  // get: -46
    EXPECT_EQ(say(job, 0, message(101, "\x02\x09"s)).at(0).bytes, message(101, "\x02\x5d"s));  // spawn: -47
}

TEST(PmixJob, AFenceOfSomeIsNotWaitedFor) {
    Pmix job(2);
    const std::string of_rank_one = "\x02\x03\x02\x01\x02\x16"s + "1974009857\0"s + "\x01\x02\0"s;
    EXPECT_EQ(say(job, 0, message(100, of_rank_one)).at(0).bytes, message(100, "\x02\x5d"s));
    for (std::size_t size = 2; size + 7 < fence.size(); ++size)
        EXPECT_EQ(say(job, 0, message(100, fence.substr(0, size))).at(0).bytes, message(100, "\x02\x5d"s));
}

TEST(PmixJob, AbortEndsTheJobWithItsStatus) {
    Pmix job(2);
    EXPECT_EQ(say(job, 0, message(100, "\x02\x01\x02\x06\x02"s)).size(), 1U);
    EXPECT_EQ(job.failure(), "has aborted the job (exit code 3)");
    EXPECT_EQ(job.exit_code(), 3);
}

TEST(PmixJob, NonsenseEndsTheJob) {
    for (const std::string& body :
         {""s, "\x02"s, "\0\0\0\x01"s, "\x80\x80\x80\x80\x80\x80"s, "\x04\x03\x03"s}) {
        Pmix job(1);
        EXPECT_TRUE(say(job, 0, message(100, body)).empty());
        EXPECT_FALSE(job.failure().empty());
    }
    Pmix job(1);
    std::string half = message(100, fence).substr(0, 20);
    EXPECT_TRUE(job.read(0, half).empty());
    EXPECT_EQ(half.size(), 20U);
}

}  // namespace
}  // namespace cairn::restart::pmi
