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

}  // namespace
}  // namespace cairn
