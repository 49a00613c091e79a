// Notes are told when they are new.
#include "coordinator/told.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cairn::coordinator {
namespace {

using Words = std::vector<std::string>;
constexpr auto to_client = Told::Audience::client, to_log = Told::Audience::log;

TEST(Told, eachNoteOnce) {
    Told told;
    EXPECT_EQ(told.news({"a", "b"}, to_client), (Words{"a", "b"}));
    EXPECT_EQ(told.news({"a", "b"}, to_client), Words{});
    EXPECT_EQ(told.news({"a", "c", "b"}, to_client), Words{"c"});
}

TEST(Told, whatOnlyTheLogHasHeardIsNewToAClient) {
    Told told;
    EXPECT_EQ(told.news({"a"}, to_log), Words{"a"});
    EXPECT_EQ(told.news({"a"}, to_log), Words{});
    EXPECT_EQ(told.news({"a"}, to_client), Words{"a"});
    EXPECT_EQ(told.news({"b"}, to_client), Words{"b"});
    EXPECT_EQ(told.news({"a", "b"}, to_log), Words{});
}

TEST(Told, forgetsBeforeItGrowsForEver) {
    Told told;
    for (int i = 0; i < 5000; ++i) static_cast<void>(told.news({fmt::format("note {}", i)}, to_log));
    EXPECT_EQ(told.news({"note 0"}, to_log), Words{"note 0"});
}

}  // namespace
}  // namespace cairn::coordinator
