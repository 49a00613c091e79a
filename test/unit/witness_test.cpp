// What the witness calls a difference.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <regex>

#include "witness/compare.h"
#include "witness/look.h"
#include "witness/rules.h"

namespace cairn::witness {
namespace {

Facts facts(std::initializer_list<std::pair<const char*, const char*>> all) {
    Facts made;
    for (const auto& [name, value] : all) made.put(name, std::string(value));
    return made;
}

std::vector<std::string> names(const std::vector<Facts>& before, const std::vector<Facts>& after) {
    std::vector<std::string> found;
    for (const auto& each : differences(before, after)) found.push_back(each.name);
    return found;
}

TEST(Witness, WhatMovesByItselfIsNotCompared) {
    const Facts one = facts({{"1/a", "x"}, {"1/b", "x"}}), other = facts({{"1/a", "y"}, {"1/b", "x"}});
    EXPECT_TRUE(names({one, other}, {facts({{"1/a", "z"}, {"1/b", "x"}})}).empty());
    EXPECT_EQ(names({one, one}, {other}), std::vector<std::string>{"1/a"});
    EXPECT_TRUE(names({one, one}, {other, one}).empty());  // it was once as before
}

TEST(Witness, WhatComesOrGoesIsDifferent) {
    EXPECT_EQ(names({facts({{"1/a", "x"}})}, {facts({{"1/b", "x"}})}),
              (std::vector<std::string>{"1/a", "1/b"}));
}

TEST(Witness, NumbersOfTheKernelsMayBeOthersAndMustStayDifferent) {
    const Facts before = facts({{"1/fd/3/leads to", "pipe:[10]"},
                                {"1/fd/4/leads to", "pipe:[11]"},
                                {"1/fd/5/leads to", "pipe:[10]"}});
    EXPECT_TRUE(names({before}, {facts({{"1/fd/3/leads to", "pipe:[20]"},
                                        {"1/fd/4/leads to", "pipe:[21]"},
                                        {"1/fd/5/leads to", "pipe:[20]"}})})
                    .empty());
    EXPECT_EQ(names({before}, {facts({{"1/fd/3/leads to", "pipe:[20]"},
                                      {"1/fd/4/leads to", "pipe:[20]"},
                                      {"1/fd/5/leads to", "pipe:[20]"}})}),
              std::vector<std::string>{"1/fd/4/leads to"});
    EXPECT_EQ(names({before}, {facts({{"1/fd/3/leads to", "pipe:[20]"},
                                      {"1/fd/4/leads to", "socket:[21]"},
                                      {"1/fd/5/leads to", "pipe:[20]"}})}),
              std::vector<std::string>{"1/fd/4/leads to"});
}

TEST(Witness, ANumberThatHasStayedIsNobodyElses) {
    const Facts before = facts({{"1/fd/3/leads to", "pipe:[10]"}, {"1/fd/4/leads to", "pipe:[20]"}});
    EXPECT_EQ(names({before}, {facts({{"1/fd/3/leads to", "pipe:[20]"}, {"1/fd/4/leads to", "pipe:[20]"}})}),
              std::vector<std::string>{"1/fd/3/leads to"});
}

TEST(Witness, WhatLivingProgramsDoIsNotCompared) {
    const Facts before = facts({{"1/map/7f00 a/page/00", "1"}, {"1/fd/3/access", "500"}});
    const std::vector after{facts({{"1/map/7f00 a/page/00", "2"}, {"1/fd/3/access", "700"}})};
    EXPECT_EQ(differences({&before, 1}, after, Programs::stand_still).size(), 2U);
    EXPECT_EQ(differences({&before, 1}, after, Programs::go_on).size(), 1U);
}

TEST(Witness, PartsThatARuleNamesAreLeftOut) {
    EXPECT_TRUE(names({facts({{"1/map/7f00 a/VmFlags", "rd wr ac"}})},
                      {facts({{"1/map/7f00 a/VmFlags", "rd wr sd"}})})
                    .empty());
    EXPECT_EQ(names({facts({{"1/map/7f00 a/VmFlags", "rd wr dc ac"}})},
                    {facts({{"1/map/7f00 a/VmFlags", "rd wr"}})}),
              std::vector<std::string>{"1/map/7f00 a/VmFlags"});
}

TEST(Witness, EachRuleHasAReasonAndCanBeRead) {
    for (const Rule& rule : rules()) {
        EXPECT_GT(std::strlen(rule.reason), 10U) << rule.name;
        EXPECT_NO_THROW(std::regex{rule.name}) << rule.name;
        if (rule.value != nullptr) {
            EXPECT_NO_THROW(std::regex{rule.value}) << rule.name;
        }
        EXPECT_TRUE(rule.how == How::ignored || rule.how == How::if_seen || rule.value != nullptr)
            << rule.name;
    }
}

TEST(Witness, SeesOfAChildWhatItHasSetUp) {
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGUSR1, SIG_IGN);
        // Another program, whose memory is small: a sanitizer's takes half a minute to look at.
        execlp("sleep", "sleep", "1000", nullptr);
        _exit(1);
    }
    usleep(100'000);
    const auto seen = look({child});
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    ASSERT_TRUE(seen) << seen.error().what;
    const auto& all = seen->all();
    EXPECT_EQ(all.at(fmt::format("{}/status/SigIgn", child)).back(), '0');
    EXPECT_TRUE(all.contains(fmt::format("{}/fd/1/leads to", child)));
    EXPECT_TRUE(all.contains(fmt::format("{}/limits/08", child)));
    const auto action = all.find(fmt::format("{}/calls/sigaction/10", child));
    if (action != all.end()) {                         // where it may be traced
        EXPECT_EQ(action->second.substr(0, 2), "01");  // SIG_IGN
    }
}

}  // namespace
}  // namespace cairn::witness
