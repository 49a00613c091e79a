// The trace of a program without the checkpoints of its processes: as it would be if none had been taken.
#include <gtest/gtest.h>

#include "mpi/tool/program_trace.h"

namespace cairn::mpi::tool {
namespace {

using namespace cairn::causality;

std::vector<Event> events_of(ProgramTrace& trace, Process process) {
    std::vector<Event> events;
    Event event;
    for (;;) {
        const auto more = trace.next(process, event);
        EXPECT_TRUE(more) << more.error().what;
        if (!more || !*more) return events;
        events.push_back(event);
    }
}

// Of one process: as it is recorded, and as it is alone.
struct Both {
    MemoryTrace recorded{1}, alone{1};
    void both(const Event& event) {
        recorded.append(0, event);
        alone.append(0, event);
    }
};

TEST(MpiProgramTrace, IsTheSameWithoutCheckpoints) {
    Both run;
    constexpr std::uint8_t begins = Flag::for_collective, joined = Flag::joined;
    run.recorded.append(0, {.kind = Kind::checkpoint});
    run.both({.kind = Kind::send, .peer = 0, .tag = 1, .request = 1});
    // An operation that waits, with a forced checkpoint in it.
    run.recorded.append(0, {.kind = Kind::post, .flags = begins, .request = 2});
    run.recorded.append(0, {.kind = Kind::checkpoint, .flags = Flag::forced});
    run.recorded.append(0, {.kind = Kind::collective, .shape = Shape::all, .flags = joined, .request = 2});
    run.alone.append(0, {.kind = Kind::collective, .shape = Shape::all});
    // One that doesn't, begun and ended by two calls; requests are numbered as they are opened.
    run.recorded.append(0, {.kind = Kind::post, .flags = begins, .request = 3});
    run.alone.append(0, {.kind = Kind::post, .flags = begins, .request = 2});
    run.both({.kind = Kind::internal});
    run.recorded.append(0, {.kind = Kind::collective, .shape = Shape::all, .request = 3});
    run.alone.append(0, {.kind = Kind::collective, .shape = Shape::all, .request = 2});
    // Closed by a call that closes another one first.
    run.recorded.append(0, {.kind = Kind::post, .flags = begins, .request = 4});
    run.alone.append(0, {.kind = Kind::post, .flags = begins, .request = 3});
    run.both({.kind = Kind::complete, .request = 1});
    run.recorded.append(0, {.kind = Kind::collective, .shape = Shape::all, .flags = joined, .request = 4});
    run.alone.append(0, {.kind = Kind::collective, .shape = Shape::all, .flags = joined, .request = 3});
    run.recorded.append(0, {.kind = Kind::checkpoint});

    ProgramTrace program(std::make_unique<MemoryTrace>(std::move(run.recorded)), {100});
    EXPECT_EQ(events_of(program, 0), run.alone.events(0));
    EXPECT_TRUE(program.ended(0));
}

TEST(MpiProgramTrace, EndsWithTheRecord) {
    MemoryTrace recorded(1);
    for (int call = 0; call < 3; ++call) {
        recorded.append(0, {.kind = Kind::send, .peer = 0, .tag = call});
        recorded.append(0, {.kind = Kind::receive, .flags = Flag::joined, .peer = 0, .tag = call});
    }
    ProgramTrace program(std::make_unique<MemoryTrace>(std::move(recorded)), {2});
    EXPECT_EQ(events_of(program, 0).size(), 4U);
    EXPECT_FALSE(program.ended(0));
}

}  // namespace
}  // namespace cairn::mpi::tool
