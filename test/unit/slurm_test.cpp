// What `cairn slurm run` reads: the site's file, the command line, and what scontrol prints.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "cli/slurm/job.h"
#include "cli/slurm/settings.h"

namespace cairn::slurm {
namespace {

constexpr const char* job_line =
    "JobId=1 JobName=a.sh UserId=u(1002) JobState=RUNNING Reason=None TimeLimit=00:30:00 "
    "StartTime=1795463166 "
    "EndTime=1795463199 Deadline=N/A PreemptEligibleTime=1795463166 PreemptTime=1795463179 Comment=a b  "
    "Power= \n";

TEST(Slurm, StateOfAPreemptedJob) {
    const JobState state = parse_job_state(job_line);
    EXPECT_EQ(state.state, "RUNNING");
    EXPECT_EQ(state.start, 1795463166);
    EXPECT_EQ(state.end, 1795463199);
    EXPECT_TRUE(state.preempted);
}

TEST(Slurm, PreemptionOfAnEarlierRunIsOver) {
    std::string line = job_line;
    line.replace(line.find("PreemptTime=1795463179"), 22, "PreemptTime=1795463100");
    EXPECT_FALSE(parse_job_state(line).preempted);
}

TEST(Slurm, WithoutALimitThereIsNoEnd) {
    const JobState state =
        parse_job_state("JobState=RUNNING TimeLimit=UNLIMITED StartTime=5 EndTime=99 PreemptTime=None");
    EXPECT_EQ(state.end, 0);
    EXPECT_FALSE(state.preempted);
}

TEST(Slurm, AFieldIsFoundByItsWholeName) {
    EXPECT_EQ(field_of(job_line, "Time"), "");
    EXPECT_EQ(field_of(job_line, "JobId"), "1");
    EXPECT_EQ(field_of(job_line, "Power"), "");
}

TEST(Slurm, SiteFile) {
    Settings settings;
    ASSERT_TRUE(
        read_site("# ours\n\n ckptdir = /scratch/%u # all\ninterval=1.5\nkeep=3\nsignal=USR2\nverify=no\n",
                  "f", settings));
    EXPECT_EQ(settings.folder, "/scratch/%u");
    EXPECT_EQ(settings.interval, 1.5);
    EXPECT_EQ(settings.keep, 3);
    EXPECT_EQ(settings.warning, SIGUSR2);
    EXPECT_FALSE(settings.verify);
    for (const char* wrong : {"ckptdir=scratch", "interval=-1", "interval=1x", "keep=0", "signal=KILL",
                              "verify=1", "pace=3", "x"}) {
        const auto read = read_site(std::string("poll=1\n") + wrong, "f", settings);
        ASSERT_FALSE(read) << wrong;
        EXPECT_NE(read.error().what.find("line 2"), std::string::npos) << read.error().what;
    }
}

Result<Settings> settings_of(std::vector<std::string> words) {
    ::setenv("CAIRN_SLURM_CONF", "/dev/null", 1);
    ::setenv("SLURM_SUBMIT_DIR", "/there", 1);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    return read_settings(pointers);
}

TEST(Slurm, TheProgramsOptionsAreItsOwn) {
    const auto settings = settings_of(
        {"-i", "5", "--keep=4", "--no-verify", "--ckptdir", "here", "prog", "-i", "7", "--", "x"});
    ASSERT_TRUE(settings) << settings.error().what;
    EXPECT_EQ(settings->interval, 5);
    EXPECT_EQ(settings->keep, 4);
    EXPECT_FALSE(settings->verify);
    EXPECT_EQ(settings->folder, "/there/here");
    EXPECT_EQ(settings->program, (std::vector<std::string>{"prog", "-i", "7", "--", "x"}));
}

TEST(Slurm, WrongUsage) {
    using Words = std::vector<std::string>;
    for (const Words& words : {Words{}, Words{"--interval", "x", "p"}, Words{"--frob", "p"}, Words{"-i"},
                               Words{"--name", "a/b", "p"}}) {
        const auto settings = settings_of(words);
        ASSERT_FALSE(settings);
        EXPECT_EQ(settings.error().code, ExitCode::usage) << settings.error().what;
    }
}

TEST(Slurm, Signals) {
    EXPECT_EQ(signal_number("USR1"), SIGUSR1);
    EXPECT_EQ(signal_number("SIGTERM"), SIGTERM);
    EXPECT_EQ(signal_number("10"), SIGUSR1);
    EXPECT_EQ(signal_number("KILL"), 0);
    EXPECT_EQ(signal_number(""), 0);
}

}  // namespace
}  // namespace cairn::slurm
