// What cairn-control prints, and how it reads its options.
#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <vector>

#include "cli/control/options.h"
#include "cli/control/text.h"
#include "common/client.h"

namespace cairn::control {
namespace {

using nlohmann::json;

Result<Options> read(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return read_options(argv);
}

TEST(ControlOptions, EachVerbHasItsOwn) {
    const auto full =
        read({"checkpoint", "-s", "night", "--kill", "--timeout", "2.5", "--json", "-q", "-d", "x/../y"});
    ASSERT_TRUE(full) << full.error().what;
    EXPECT_EQ(full->session, "night");
    EXPECT_TRUE(full->kill && full->json && full->quiet);
    EXPECT_EQ(full->timeout, 2.5);
    EXPECT_EQ(full->checkpoint_folder, (std::filesystem::current_path() / "y").string());
    EXPECT_EQ(read({"interval", "60"})->seconds, 60);
    EXPECT_EQ(read({"list"})->json, false);
}

TEST(ControlOptions, WrongOnesAreUsage) {
    for (const auto& words : std::initializer_list<std::vector<std::string>>{{"interval"},
                                                                             {"interval", "-1"},
                                                                             {"interval", "soon"},
                                                                             {"interval", "nan"},
                                                                             {"interval", "1", "2"},
                                                                             {"list", "--kill"},
                                                                             {"kill", "123"},
                                                                             {"checkpoint", "--timeout", "0"},
                                                                             {"checkpoint", "--timeout"}}) {
        const auto options = read(words);
        ASSERT_FALSE(options) << words[0];
        EXPECT_EQ(options.error().code, ExitCode::usage);
        EXPECT_NE(options.error().what.find("cairn help " + words[0]), std::string::npos)
            << options.error().what;
    }
}

TEST(ControlText, TableIsATree) {
    const std::vector<json> processes{
        {{"pid", 30},
         {"real", 3},
         {"parent", 2},
         {"name", "c"},
         {"command", "c -x"},
         {"state", "running"},
         {"restored", true}},
        {{"pid", 2},
         {"real", 2},
         {"parent", 1},
         {"name", "b"},
         {"command", ""},
         {"state", "running"},
         {"memory", 2048}},
        {{"pid", 4}, {"real", 4}, {"parent", 3}, {"command", "d\033[2J"}, {"foreign", "static program"}}};
    const std::string table = process_table(processes);
    EXPECT_EQ(table.find('\033'), std::string::npos);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < table.size();) {
        const std::size_t end = table.find('\n', at);
        lines.push_back(table.substr(at, end - at));
        at = end + 1;
    }
    ASSERT_EQ(lines.size(), 4U) << table;
    EXPECT_TRUE(lines[1].ends_with(" (b)")) << table;
    EXPECT_NE(lines[1].find("2.0 KiB"), std::string::npos) << table;
    const std::size_t column = lines[1].find("(b)");
    EXPECT_EQ(lines[2].substr(column), "  c -x") << table;
    EXPECT_EQ(lines[3].substr(column), "    d\\x1b[2J") << table;
    EXPECT_NE(lines[2].find("30  "), std::string::npos) << table;
    EXPECT_NE(lines[3].find("can't be saved: static program"), std::string::npos) << table;
    EXPECT_EQ(process_table({}), "no processes\n");
}

TEST(ControlText, CheckpointSaysFolderSizePauseTime) {
    const std::string said = checkpoint_text({{"directory", "/d/x/3"},
                                              {"bytes", 3 << 20},
                                              {"processes", 1},
                                              {"pause_ns", 1'500'000},
                                              {"total_ns", 2'000'000'000},
                                              {"notes", {"odd"}}});
    EXPECT_EQ(said, "/d/x/3\n3.0 MiB of 1 process, pause 1.5 ms, durable after 2.0 s\nnote: odd\n");
}

TEST(ControlText, ProgressFitsItsWidth) {
    const json event{
        {"event", "progress"}, {"bytes", 50}, {"total", 200}, {"rate", 1024}, {"last", "12 (é\n)"}};
    EXPECT_EQ(progress_line(event, 200), "write  25 %  50 of 200  1.0 KiB/s  last: 12 (é\\x0a)");
    for (std::size_t width = 0; width < 60; ++width) EXPECT_LE(progress_line(event, width).size(), width + 1);
    EXPECT_EQ(progress_line({{"event", "phase"}, {"name", "stop"}, {"waiting", {"1 (a)", "2 (b)"}}}, 80),
              "stop: waiting for 1 (a), 2 (b)");
    EXPECT_EQ(progress_line({{"event", "else"}}, 80), "");
}

TEST(ControlText, StatusBearsMissingFields) {
    EXPECT_NE(status_text({{"session", "s"}}).find("none yet"), std::string::npos);
    EXPECT_NE(
        status_text({{"session", 5}, {"last", "x"}, {"checkpoint", {{"phase", "write"}}}}).find("write"),
        std::string::npos);
}

TEST(ControlText, Duration) {
    EXPECT_EQ(duration(-1), "0.0 s");
    EXPECT_EQ(duration(9.94), "9.9 s");
    EXPECT_EQ(duration(75), "1 min 15 s");
    EXPECT_EQ(duration(7500), "2 h 5 min");
    EXPECT_EQ(duration(180000), "2 d 2 h");
}

TEST(ClientError, CodesOutsideTheListAreFailures) {
    EXPECT_EQ(error_of({{"code", 3}, {"reason", "r"}}).code, ExitCode::refused);
    EXPECT_EQ(error_of({{"code", 99}}).code, ExitCode::failed);
    EXPECT_EQ(error_of({{"code", 0}}).code, ExitCode::failed);
}

}  // namespace
}  // namespace cairn::control
