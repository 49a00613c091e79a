// Notes are told when they are new.
#include "coordinator/told.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cairn::coordinator {
namespace {

using Notes = std::vector<std::string>;
using enum Told::Audience;

TEST(Told, eachNoteOnce) {
    Told told;
    EXPECT_EQ(told.news({"a", "b"}, client), (Notes{"a", "b"}));
    EXPECT_EQ(told.news({"a", "b"}, client), Notes{});
    EXPECT_EQ(told.news({"a", "c", "b"}, client), Notes{"c"});
}

TEST(Told, whatOnlyTheLogHasHeardIsNewToAClient) {
    Told told;
    EXPECT_EQ(told.news({"a"}, log), Notes{"a"});
    EXPECT_EQ(told.news({"a"}, log), Notes{});
    EXPECT_EQ(told.news({"a"}, client), Notes{"a"});
    EXPECT_EQ(told.news({"b"}, client), Notes{"b"});
    EXPECT_EQ(told.news({"a", "b"}, log), Notes{});
}

TEST(Told, forgetsBeforeItGrowsForEver) {
    Told told;
    for (int i = 0; i < 5000; ++i) static_cast<void>(told.news({fmt::format("note {}", i)}, log));
    EXPECT_EQ(told.news({"note 0"}, log), Notes{"note 0"});
}

}  // namespace
}  // namespace cairn::coordinator
