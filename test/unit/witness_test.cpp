// What the witness calls a difference.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "common/region.h"
#include "common/region_ops.h"
#include "witness/compare.h"
#include "witness/ids.h"
#include "witness/look.h"
#include "witness/memory.h"
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

TEST(Witness, WhoWasInANamespaceAloneIsAloneInOne) {
    const Facts before = facts({{"1/ns/time", "time:[10]"}, {"2/ns/time", "time:[11]"}});
    EXPECT_TRUE(names({before}, {facts({{"1/ns/time", "time:[11]"}, {"2/ns/time", "time:[10]"}})}).empty());
    EXPECT_EQ(names({before}, {facts({{"1/ns/time", "time:[11]"}, {"2/ns/time", "time:[11]"}})}),
              std::vector<std::string>{"1/ns/time"});
    const char* const alone = "1/ns/time of children alone";
    EXPECT_TRUE(names({facts({{alone, "time:[11]"}, {"2/ns/time", "time:[11]"}})},
                      {facts({{alone, "time:[20]"}, {"2/ns/time", "time:[21]"}})})
                    .empty());
}

TEST(Witness, AMappedRingIsOfTheSocketThatItWasOf) {
    const Facts before = facts({{"1/fd/3/leads to", "socket:[10]"},
                                {"1/fd/4/leads to", "socket:[11]"},
                                {"1/map/1000 shared/file", "socket:[11]"}});
    const auto after = [](const char* ring) {
        return facts({{"1/fd/3/leads to", "socket:[20]"},
                      {"1/fd/4/leads to", "socket:[21]"},
                      {"1/map/1000 shared/file", ring}});
    };
    EXPECT_TRUE(names({before}, {after("socket:[21]")}).empty());
    EXPECT_EQ(names({before}, {after("socket:[20]")}), std::vector<std::string>{"1/map/1000 shared/file"});
}

TEST(Witness, FilesOfWhoHasGoneComeBackAsOfAnotherWhoHasGone) {
    const char* const name = "1/fd/3/leads to one who has gone";
    EXPECT_TRUE(names({facts({{name, "/proc/12/stat"}})}, {facts({{name, "/proc/13/stat"}})}).empty());
    EXPECT_FALSE(names({facts({{name, "/proc/12/stat"}})}, {facts({{name, "/proc/13/mem"}})}).empty());
    const char* const root = "1/task/1/root/leads to one who has gone";
    EXPECT_TRUE(names({facts({{root, "/proc/12/fdinfo"}})}, {facts({{root, "/proc/13/fdinfo"}})}).empty());
    EXPECT_FALSE(names({facts({{"1/fd/3/leads to", "/proc/12/stat"}})},
                       {facts({{"1/fd/3/leads to", "/proc/13/stat"}})})
                     .empty());
}

TEST(Witness, WhatLivingProgramsDoIsNotCompared) {
    const Facts before =
        facts({{"1/map/7f00 a/page/00", "1"}, {"1/map/8f00 a/content", "1"}, {"1/fd/3/access", "500"}});
    const std::vector after{
        facts({{"1/map/7f00 a/page/00", "2"}, {"1/map/8f00 a/content", "2"}, {"1/fd/3/access", "700"}})};
    EXPECT_EQ(differences({&before, 1}, after, Programs::stand_still).size(), 3U);
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

// docs/witness-rules.md says of each rule who could see what it leaves out, and what compares that instead.
TEST(Witness, EachRuleIsReviewed) {
    std::ifstream file(CAIRN_SOURCE_DIR "/docs/witness-rules.md");
    std::stringstream page;
    page << file.rdbuf();
    for (const auto& some : {rules(), rules_of_living()})
        for (const Rule& rule : some) {
            const auto name = std::regex_replace(std::string(rule.name), std::regex("\\|"), "\\|");
            EXPECT_NE(page.str().find("`" + name), std::string::npos) << rule.name;
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

// A session's file `region` in which the kernel's ids are others than the programs'.
std::string region_with(std::initializer_list<std::pair<int, int>> program_and_kernel) {
    const int file = memfd_create("region", 0);
    EXPECT_EQ(ftruncate(file, sizeof(Region)), 0);
    auto* region =
        static_cast<Region*>(mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    for (const auto& [program, kernel] : program_and_kernel)
        EXPECT_TRUE(insert_id(region->ids, ProgramId(program), KernelId(kernel)));
    munmap(region, sizeof(Region));
    return fmt::format("/proc/self/fd/{}", file);
}

// Two neighbours that have come to be alike are one mapping for the kernel or two, by what was done to them
// before; that one of them has had guard pages keeps them no more apart.
TEST(Witness, NeighboursThatAreAlikeAreOne) {
    constexpr std::size_t page = 4096;
    constexpr int guard_install = 102;  // linux/mman.h of 6.13
    void* const all = ::mmap(nullptr, 6 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(all, MAP_FAILED);
    char* const first = static_cast<char*>(all) + page;
    char* const second = first + 2 * page;
    ASSERT_EQ(::mprotect(first, 4 * page, PROT_READ | PROT_WRITE), 0);
    ASSERT_EQ(::madvise(second, 2 * page, MADV_WIPEONFORK), 0);
    *first = *second = 'x';
    (void)::madvise(second + page, page, guard_install);
    ASSERT_EQ(::madvise(first, 2 * page, MADV_WIPEONFORK), 0);
    Facts seen;
    see_memory(seen, ::getpid(), {});
    const auto name = [](const char* at) {
        return fmt::format("{}/map/{:x} anonymous/end", ::getpid(), reinterpret_cast<std::uintptr_t>(at));
    };
    EXPECT_EQ(seen.all().at(name(first)),
              fmt::format("{:x}", reinterpret_cast<std::uintptr_t>(second + 2 * page)));
    EXPECT_FALSE(seen.all().contains(name(second)));
    ::munmap(all, 6 * page);
}

TEST(Witness, IdsAreWrittenDownAsProgramsKnowThem) {
    const auto ids = Ids::of_region(region_with({{100, 5100}, {101, 5101}, {90, 5090}}));
    ASSERT_TRUE(ids) << ids.error().what;
    const Facts seen =
        translated(facts({{"5100/stat/ppid", "5090"},
                          {"5100/stat/tty_nr", "5090"},
                          {"5100/status/NSpid", "5100"},
                          {"5100/task/5101/status/SigBlk", "0"},
                          {"5100/stack pointer/5101", "5100"},
                          {"5100/timers/04", "notify: signal/tid.5101"},
                          {"5100/timers/05", "ClockID: -40810"},
                          {"5100/fd/3/fcntl/owner", "2 5090"},
                          {"5100/fd/4/leads to", "/proc/5101/stat"},
                          {"5100/fd/5/fdinfo/lock 1:", "\t1: POSIX  ADVISORY  WRITE 5101 00:19:5 0 EOF"},
                          {"5100/fd/6/other socket/socket/17", "ec1300000000000000000000"},
                          {"5100/task/5101/robust list/0000", "7f00: owner 5101, waited for"}}),
                   *ids);
    const std::map<std::string, std::string> expected{
        {"100/stat/ppid", "90"},
        {"100/stat/tty_nr", "5090"},
        {"100/status/NSpid", "100"},
        {"100/task/101/status/SigBlk", "0"},
        {"100/stack pointer/101", "5100"},
        {"100/timers/04", "notify: signal/tid.101"},
        {"100/timers/05", "ClockID: -810"},
        {"100/fd/3/fcntl/owner", "2 90"},
        {"100/fd/4/leads to", "/proc/101/stat"},
        {"100/fd/5/fdinfo/lock 1:", "\t1: POSIX  ADVISORY  WRITE 101 00:19:5 0 EOF"},
        {"100/fd/6/other socket/socket/17", "640000000000000000000000"},
        {"100/task/101/robust list/0000", "7f00: owner 101, waited for"}};
    EXPECT_EQ(seen.all(), expected);
}

TEST(Witness, WhoSharesIsNamedByTheFirstAmongThePrograms) {
    const auto ids = Ids::of_region(region_with({{100, 5102}, {101, 5101}}));
    ASSERT_TRUE(ids) << ids.error().what;
    const Facts seen = translated(facts({{"5101/task/5101/shares/files", "5101"},
                                         {"5102/task/5102/shares/files", "5101"},
                                         {"5101/fd/3/same as", "5101/fd/3"},
                                         {"5102/fd/7/same as", "5101/fd/3"}}),
                                  *ids);
    const std::map<std::string, std::string> expected{{"101/task/101/shares/files", "100"},
                                                      {"100/task/100/shares/files", "100"},
                                                      {"101/fd/3/same as", "100/fd/7"},
                                                      {"100/fd/7/same as", "100/fd/7"}};
    EXPECT_EQ(seen.all(), expected);
}

TEST(Witness, ContentThatOneOfTheLooksHasNotSeenIsNotCompared) {
    EXPECT_TRUE(names({facts({{"1/map/7000 shared/page/00", "aa"}})},
                      {facts({{"1/map/7000 shared/content not seen", ""}})})
                    .empty());
    EXPECT_EQ(names({facts({{"1/map/7000 shared/page/00", "aa"}})},
                    {facts({{"1/map/8000 shared/content not seen", ""}})})
                  .size(),
              1U);
}

}  // namespace
}  // namespace cairn::witness
