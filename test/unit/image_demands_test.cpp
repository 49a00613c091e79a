// What a restart demands of an image beyond its types (resources/schema/demands.h).
#include <gtest/gtest.h>
#include <sys/user.h>

#include "resources/schema/demands.h"

namespace cairn {
namespace {

schema::Process with_state(std::size_t bytes, std::optional<std::uint32_t> whole) {
    schema::Process process;
    process.pid = ProgramId(7);
    schema::Thread thread;
    thread.tid = process.pid;
    thread.registers.resize(sizeof(user_regs_struct));
    thread.xstate.resize(bytes);
    thread.xstate_size = whole;
    process.threads.push_back(thread);
    return process;
}

bool is_refused_for_its_state(const schema::Process& process) {
    const schema::Process* const all[] = {&process};
    const auto done = check_demands(all, schema::Objects{});
    return !done && done.error().what.contains("floating-point state of thread 7");
}

TEST(ImageDemands, AThreadsRegistersAreAsManyAsTheySay) {
    EXPECT_FALSE(is_refused_for_its_state(with_state(576, {})));
    EXPECT_FALSE(is_refused_for_its_state(with_state(2696, 11008)));
    EXPECT_FALSE(is_refused_for_its_state(with_state(2696, 2696)));
    EXPECT_TRUE(is_refused_for_its_state(with_state(575, {})));
    EXPECT_TRUE(is_refused_for_its_state(with_state(575, 11008)));
    EXPECT_TRUE(is_refused_for_its_state(with_state(2696, 2695)));
    EXPECT_TRUE(is_refused_for_its_state(with_state(2696, 1U << 30)));
}

TEST(ImageDemands, APageIsInOnePlace) {
    const auto is_refused = [](std::vector<schema::PageRun> own, std::vector<schema::PageRun> first,
                               std::vector<schema::PageRun> second) {
        auto process = with_state(576, {});
        schema::Area area;
        area.start = ProgramAddress(0x10000);
        area.end = ProgramAddress(0x20000);
        area.pages = std::move(own);
        area.borrowed = {{process.pid, "a.image", std::move(first)},
                         {process.pid, "b.image", std::move(second)}};
        process.areas.push_back(std::move(area));
        const schema::Process* const all[] = {&process};
        const auto done = check_demands(all, schema::Objects{});
        return !done && done.error().what.contains("are there twice");
    };
    const auto run = [](std::uint64_t at, std::uint64_t length) {
        return schema::PageRun{.at = ProgramAddress(at), .length = length};
    };
    EXPECT_FALSE(is_refused({run(0x11000, 0x1000)}, {run(0x10000, 0x1000), run(0x12000, 0x1000)},
                            {run(0x13000, 0xd000)}));
    EXPECT_TRUE(is_refused({run(0x11000, 0x2000)}, {run(0x10000, 0x1000), run(0x12000, 0x1000)}, {}));
    EXPECT_TRUE(is_refused({}, {run(0x10000, 0x3000)}, {run(0x12000, 0x1000)}));
    EXPECT_TRUE(is_refused({}, {}, {run(0x12000, 0x1000), run(0x12000, 0x1000)}));
    EXPECT_TRUE(is_refused({}, {}, {run(0x1f000, 0x2000)}));
}

}  // namespace
}  // namespace cairn
