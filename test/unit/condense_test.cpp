// Thousands of notes that say the same become a few.
#include "common/condense.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Condense, keepsWhatIsFew) {
    const std::vector<std::string> notes = {"descriptor 3 of 17 (cat) is a socket",
                                            "a file has changed: /tmp/x",
                                            "descriptor 4 of 18 (dog) is a socket"};
    EXPECT_EQ(condense(notes), notes);
    EXPECT_TRUE(condense({}).empty());
}

TEST(Condense, countsWhatIsAlike) {
    std::vector<std::string> notes = {"something else"};
    for (int i = 0; i < 2000; ++i)
        notes.push_back(fmt::format("{} (python{}): descriptor {} is a TCP socket", 100, i, i));
    notes.emplace_back("and another thing");
    const auto few = condense(notes);
    ASSERT_EQ(few.size(), 3U);
    EXPECT_EQ(few[0], "something else");
    EXPECT_EQ(few[1], notes[1] + " (and 1999 other notes like this one)");
    EXPECT_EQ(few[2], "and another thing");
    EXPECT_EQ(condense(notes, "`cairn inspect D`")[1],
              notes[1] + " (and 1999 other notes like this one: `cairn inspect D`)");
}

TEST(Condense, isNeverLong) {
    std::vector<std::string> notes;
    for (char first = 'a'; first <= 'z'; ++first)
        for (char second = 'a'; second <= 'z'; ++second)
            notes.push_back(std::string{first, second} + std::string(1000, 'x'));
    const auto few = within_limit(notes);
    std::size_t bytes = 0;
    for (const auto& note : few) bytes += note.size();
    EXPECT_LT(bytes, 70'000U);
    EXPECT_EQ(few.back(), "611 other notes are left out: there are too many");
}

}  // namespace
}  // namespace cairn
