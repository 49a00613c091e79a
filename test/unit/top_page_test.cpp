// The page of `cairn top`: what is on it at which size, and what the next checkpoint is thought to cost.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/top/page.h"
#include "cli/top/width.h"

namespace cairn::top {
namespace {

ProcessRow a_process(int pid, int parent, const std::string& command) {
    ProcessRow row;
    row.process.pid = ProgramId(pid);
    row.process.real = KernelId(pid);
    row.process.parent = KernelId(parent);
    row.process.command = command;
    row.process.state = "running";
    row.memory = 10 << 20;
    row.run_state = 'S';
    return row;
}

Sample a_session(int processes) {
    Sample sample;
    sample.status.session = "night";
    sample.status.state = "running";
    sample.status.cid = "0123456789abcdef-4711-123456789";
    sample.status.ckptdir = "/home/somebody/checkpoints/of/a/long/name";
    sample.status.keep = 3;
    sample.status.processes = static_cast<std::uint64_t>(processes);
    sample.now_ns = 2'000'000'000'000'000'000;
    for (int i = 0; i < processes; ++i)
        sample.processes.push_back(a_process(100 + i, i == 0 ? 1 : 100, "program " + std::to_string(i)));
    for (std::uint32_t number : {3U, 2U, 1U})
        sample.generations.push_back({.number = number,
                                      .bytes = 5 << 20,
                                      .taken_at_ns = sample.now_ns - 60'000'000'000LL * (4 - number),
                                      .pause_ns = 2'000'000,
                                      .total_ns = 30'000'000});
    sample.next = estimate(sample);
    return sample;
}

std::string text_of(const std::vector<Line>& lines) {
    std::string text;
    for (const Line& line : lines) text += line.text + "\n";
    return text;
}

TEST(TopPage, FitsEverySize) {
    for (const int processes : {0, 1, 7, 100})
        for (std::size_t rows = 1; rows < 50; ++rows)
            for (const std::size_t columns : {1UL, 10UL, 40UL, 80UL, 200UL})
                for (const bool help : {false, true}) {
                    View view{.rows = rows, .columns = columns, .scrolled = 1000, .help = help};
                    const auto lines = page(a_session(processes), view);
                    ASSERT_EQ(lines.size(), rows);
                    for (const Line& line : lines) ASSERT_LE(width(line.text), columns);
                    ASSERT_LE(view.scrolled,
                              static_cast<std::size_t>(processes) + 1000 * static_cast<std::size_t>(help));
                }
}

TEST(TopPage, ShowsWhatThereIsRoomFor) {
    View large{.rows = 24, .columns = 80}, small{.rows = 10, .columns = 40};
    const auto sample = a_session(100);
    const std::string all = text_of(page(sample, large)), little = text_of(page(sample, small));
    for (const char* each : {"session night", "100 processes", "3 kept", "next: at most", "1 min 0 s ago",
                             "program 0", "q quit", "of 100"})
        EXPECT_NE(all.find(each), std::string::npos) << each << "\n" << all;
    for (const char* each : {"session night", "100 processes", "next: at most", "PID", "q quit"})
        EXPECT_NE(little.find(each), std::string::npos) << each << "\n" << little;
    EXPECT_EQ(little.find("ago"), std::string::npos);
    View end{.rows = 24, .columns = 80, .scrolled = 100};
    EXPECT_NE(text_of(page(sample, end)).find("program 99"), std::string::npos);
}

TEST(TopPage, SortsAndIndents) {
    auto sample = a_session(3);
    sample.processes[2].cpu = 50;
    sample.processes[1].memory = 1 << 30;
    View view{.columns = 200, .whole = true};
    EXPECT_NE(text_of(page(sample, view)).find("    program 2"), std::string::npos);
    view.sort = Sort::cpu;
    const std::string by_cpu = text_of(page(sample, view));
    EXPECT_LT(by_cpu.find("program 2"), by_cpu.find("program 0"));
    view.sort = Sort::memory;
    const std::string by_memory = text_of(page(sample, view));
    EXPECT_LT(by_memory.find("program 1"), by_memory.find("program 0"));
    int sorts = 0;
    for (Sort sort = Sort::tree; sorts == 0 || sort != Sort::tree; sort = next_after(sort)) ++sorts;
    EXPECT_EQ(sorts, 5);
}

TEST(TopPage, SaysTroubleAndWhatIsUnderWay) {
    auto sample = a_session(2);
    sample.trouble = "no coordinator\033[2J";
    sample.status.checkpoint = wire::UnderWay{.phase = "write", .bytes = 50, .total = 200, .generation = 4};
    View view;
    const std::string text = text_of(page(sample, view));
    EXPECT_NE(text.find("no coordinator\\x1b[2J"), std::string::npos);
    EXPECT_NE(text.find("checkpoint 4: write [###.........] 25 %"), std::string::npos) << text;
}

TEST(TopEstimate, GoesByTheLast) {
    auto sample = a_session(2);
    EXPECT_EQ(estimate(sample)->bytes, 20U << 20);
    EXPECT_FALSE(estimate(sample)->total_ns);
    sample.status.last =
        wire::CheckpointDone{.bytes = 8 << 20, .pause_ns = 5'000'000, .total_ns = 85'000'000};
    EXPECT_EQ(estimate(sample)->bytes, 8U << 20);
    EXPECT_EQ(estimate(sample)->total_ns, 85'000'000);
    for (auto& row : sample.processes) row.dirty = 1 << 20;
    EXPECT_EQ(estimate(sample)->bytes, 2U << 20);
    EXPECT_EQ(estimate(sample)->total_ns, 5'000'000 + 28'000'000);  // no shorter than the shortest
    sample.generations.clear();
    EXPECT_EQ(estimate(sample)->total_ns, 85'000'000);
    EXPECT_TRUE(estimate(sample)->at_most);
    sample.processes.clear();
    sample.next = estimate(sample);
    EXPECT_FALSE(sample.next);
    EXPECT_TRUE(as_json(sample)["next"].is_null());
}

TEST(TopWidth, CountsColumns) {
    EXPECT_EQ(width("abc"), 3U);
    EXPECT_EQ(width("ä"), 1U);
    EXPECT_EQ(width("日本"), 4U);
    EXPECT_EQ(cut("日本", 3), "日");
    EXPECT_EQ(fitted("日本", 3), "日 ");
    EXPECT_EQ(fitted("ab", 4), "ab  ");
}

}  // namespace
}  // namespace cairn::top
