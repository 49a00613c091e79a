// Figures, sentences and commands that people read and type.
#include <gtest/gtest.h>

#include "common/human.h"
#include "common/session.h"
#include "common/uid.h"
#include "coordinator/console.h"
#include "coordinator/words.h"

namespace cairn::coordinator {
namespace {

TEST(Human, Bytes) {
    EXPECT_EQ(human_bytes(0), "0 B");
    EXPECT_EQ(human_bytes(1023), "1023 B");
    EXPECT_EQ(human_bytes(1024), "1.00 KiB");
    EXPECT_EQ(human_bytes(1536 << 10), "1.50 MiB");
    EXPECT_EQ(human_bytes((1ULL << 30) - 1), "1.00 GiB");
    EXPECT_EQ(human_bytes(~0ULL), "16.0 EiB");
}

TEST(Human, Durations) {
    EXPECT_EQ(human_duration(850), "850 ns");
    EXPECT_EQ(human_duration(12'300'000), "12.3 ms");
    EXPECT_EQ(human_duration(999'600'000), "1.00 s");
    EXPECT_EQ(human_duration(125'000'000'000), "2 min 5 s");
    EXPECT_EQ(human_duration(-1500), "-1.50 us");
    EXPECT_EQ(human_duration(10'920'000'000'000), "3 h 2 min");
}

TEST(Session, Names) {
    EXPECT_EQ(session_name_problem("a.B_9-x"), "");
    for (const char* bad : {"", ".", "..", "-x", "a/b", "a b", "x\n"})
        EXPECT_NE(session_name_problem(bad), "") << bad;
    EXPECT_NE(session_name_problem(std::string(64, 'a')), "");
}

TEST(Uid, IsStable) {
    EXPECT_EQ(make_uid("host", ProgramId(12), 345), make_uid("host", ProgramId(12), 345));
}

TEST(Console, Commands) {
    EXPECT_TRUE(Console::parse("   ").is_null());
    EXPECT_EQ(Console::parse("c").dump(), R"({"kill":false,"verb":"checkpoint"})");
    EXPECT_EQ(Console::parse(" checkpoint kill ").dump(), R"({"kill":true,"verb":"checkpoint"})");
    EXPECT_EQ(Console::parse("i 5").dump(), R"({"seconds":5.0,"verb":"interval"})");
    EXPECT_EQ(Console::parse("i0.5").dump(), R"({"seconds":0.5,"verb":"interval"})");
    for (const char* verb : {"list", "status", "kill", "quit"}) {
        EXPECT_EQ(get_string(Console::parse(verb), "verb"), verb);
        EXPECT_EQ(get_string(Console::parse(std::string(1, *verb)), "verb"), verb);
    }
    EXPECT_EQ(get_string(Console::parse("w"), "verb"), "waits");
    for (const char* bad : {"w 1", "i", "i x", "i -1", "i nan", "k now", "frob", "c x"})
        EXPECT_EQ(get_string(Console::parse(bad), "event"), "failed") << bad;
}

TEST(Words, NamesWithControlCharactersStayOnOneLine) {
    const Json event = {{"event", "note"}, {"text", "a\n\033[31mb"}};
    ASSERT_EQ(words_of(event).size(), 1U);
    EXPECT_EQ(words_of(event)[0], "a\\x0a\\x1b[31mb");
}

TEST(Words, Waiting) {
    const Json event = {
        {"event", "waiting"},
        {"have", 1},
        {"np", 3},
        {"missing", {{{"number", 1}, {"host", "h"}, {"terminal", "/dev/pts/2"}, {"pids", {1, 2}}}}}};
    EXPECT_EQ(words_of(event)[0], "1 of 3 processes have joined; awaited: part 1 (h /dev/pts/2)");
}

}  // namespace
}  // namespace cairn::coordinator
