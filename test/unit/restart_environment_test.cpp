// What `cairn restart --env` makes of an environment.
#include <gtest/gtest.h>

#include "restart/rebuild/environment.h"

namespace cairn::restart {
namespace {

std::vector<EnvironmentChange> changes(const std::vector<std::string>& set,
                                       const std::vector<std::string>& unset) {
    std::vector<EnvironmentChange> all;
    for (const auto& name : unset) all.push_back(*read_change(name, true));
    for (const auto& text : set) all.push_back(*read_change(text, false));
    return all;
}

TEST(RestartEnvironment, setsAndTakesOut) {
    const std::vector<std::string> entries{"A=1", "AB=2", "C=3", "A=4", "odd", "=x"};
    const auto changed = change(entries, changes({"A=new", "D="}, {"C", "none"}));
    EXPECT_EQ(changed.stay, (std::vector<std::size_t>{1, 4, 5}));
    EXPECT_EQ(changed.put, (std::vector<std::string>{"A=new", "D="}));
}

TEST(RestartEnvironment, theLastOfANameCounts) {
    const std::vector<std::string> entries{"A=1"};
    const auto changed = change(entries, changes({"A=2", "A=3=4"}, {"A"}));
    EXPECT_TRUE(changed.stay.empty());
    EXPECT_EQ(changed.put, std::vector<std::string>{"A=3=4"});
}

TEST(RestartEnvironment, refusesWhatIsNoVariable) {
    for (const char* text : {"", "=x", "A"})
        EXPECT_EQ(read_change(text, false).error().code, ExitCode::usage) << text;
    for (const char* text : {"", "=x", "A=1"})
        EXPECT_EQ(read_change(text, true).error().code, ExitCode::usage) << text;
    EXPECT_EQ(read_change("CAIRN_REGION=x", false).error().code, ExitCode::usage);
    EXPECT_TRUE(read_change("CAIRN_CKPTDIR=/x", false).has_value());
}

TEST(RestartEnvironment, aProcessWithoutTheLibraryIsRefusedByName) {
    schema::Process process;
    process.pid = ProgramId(17);
    process.name = "static";
    EXPECT_NE(may_change_environment(process).error().what.find("17 (static)"), std::string::npos);
}

}  // namespace
}  // namespace cairn::restart
