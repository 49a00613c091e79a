// The movements of `cairn mpi debug`, which come from the order of a trace, against the procedures of the
// causal debugger (causality/debugger.h), which come from the histories: where all stand, and what is in
// transit then.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "causality/debugger.h"
#include "mpi/debug/moves.h"
#include "test/causality/random.h"

namespace cairn::mpi::debug {
namespace {

using namespace cairn::causality;
using cairn::test::Random;
using What = HistoryEntry::What;

struct RandomRun {
    std::vector<Recorder> processes;
    std::vector<std::vector<InTransit>> channels;  // to each process
    std::map<std::pair<Process, std::uint32_t>, SendVector> vectors;
    std::vector<History> histories;
    MemoryTrace trace;

    RandomRun(Random& random, Process n) : channels(n), trace(n) {
        for (Process p = 0; p < n; ++p) processes.emplace_back(p, n);
        const std::uint32_t steps = 5 + random.below(60);
        for (std::uint32_t i = 0; i < steps; ++i) {
            const Process p = random.below(n);
            if (channels[p].empty() || random.chance(45)) {
                const Process to = (p + 1 + random.below(n - 1)) % n;
                const SendVector& vector = processes[p].send(to);
                vectors[{p, vector[p]}] = vector;
                channels[to].push_back({p, vector[p], 0});
                trace.append(p, {.kind = Kind::send, .peer = to, .message = vector[p]});
            } else {
                const std::size_t at = random.below(static_cast<std::uint32_t>(channels[p].size()));
                const InTransit message = channels[p][at];
                channels[p].erase(channels[p].begin() + static_cast<std::ptrdiff_t>(at));
                processes[p].receive(message.from, vectors.at({message.from, message.number}), 0);
                trace.append(p, {.kind = Kind::receive, .peer = message.from, .message = message.number});
            }
        }
        for (const Recorder& each : processes) histories.push_back(each.history());
    }
};

std::vector<std::pair<Process, std::uint32_t>> in_transit(const Moves& moves, const Cut& cut) {
    std::vector<std::pair<Process, std::uint32_t>> found;
    for (const Index sent : moves.in_transit(cut))
        found.emplace_back(moves.computation().process_of(sent),
                           static_cast<std::uint32_t>(moves.computation().event(sent).message));
    std::sort(found.begin(), found.end());
    return found;
}

void compare_back(const RandomRun& run, const Moves& moves, Process receiver, Position behind,
                  const HistoryEntry& receipt) {
    const auto rollback = backward(run.histories, run.channels, receipt.peer, receipt.number);
    ASSERT_TRUE(rollback);
    Index sent = causality::none;
    const auto to = moves.back({receiver, behind}, sent);
    ASSERT_TRUE(to);
    ASSERT_EQ(moves.computation().event(sent).message, receipt.number);
    ASSERT_EQ(to->rank, receipt.peer);
    ASSERT_EQ(to->position, rollback->targets[receipt.peer].run_to);
    const Cut cut = moves.all(*to);
    std::vector<std::pair<Process, std::uint32_t>> kept;
    for (Process p = 0; p < cut.size(); ++p) {
        ASSERT_EQ(cut[p], rollback->targets[p].run_to);
        for (const InTransit& each : rollback->targets[p].queue) kept.emplace_back(each.from, each.number);
    }
    std::sort(kept.begin(), kept.end());
    ASSERT_EQ(in_transit(moves, cut), kept);
}

void compare_forward(const RandomRun& run, const Moves& moves, Process receiver, Position behind,
                     const HistoryEntry& receipt) {
    const History& history = run.histories[receipt.peer];
    const auto send = std::find_if(history.begin(), history.end(), [&](const HistoryEntry& each) {
        return each.what == What::send && each.number == receipt.number;
    });
    const auto before = static_cast<Position>(send - history.begin());
    Index sent = causality::none;
    // It has just been sent.
    const auto to = moves.forward({receipt.peer, before + 1}, sent);
    ASSERT_TRUE(to);
    ASSERT_EQ(*to, (State{receiver, behind}));
    const std::vector<std::size_t> nothing(run.histories.size());
    const auto stops = forward(run.histories, nothing, receipt.peer, receipt.number, receiver);
    ASSERT_TRUE(stops);
    const Cut cut = moves.all(*to);
    ASSERT_TRUE(std::equal(cut.begin(), cut.end(), stops->begin()));
}

TEST(MpiDebugMoves, AreThoseOfTheProcedures) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        std::uint32_t messages = 0;
        for (std::uint32_t i = 0; i < test::cases(600); ++i) {
            RandomRun run(random, 2 + random.below(4));
            const auto computation = Computation::load(run.trace);
            ASSERT_TRUE(computation) << computation.error().what;
            const Moves moves(*computation);
            for (Process p = 0; p < run.histories.size(); ++p)
                for (Position at = 0; at < run.histories[p].size(); ++at) {
                    const HistoryEntry& each = run.histories[p][at];
                    if (each.what != What::receive) continue;
                    compare_back(run, moves, p, at + 1, each);
                    compare_forward(run, moves, p, at + 1, each);
                    ++messages;
                }
            if (HasFatalFailure()) FAIL() << "case " << i;
        }
        EXPECT_GT(messages, 100U);
    }
}

// Calls of several events.
TEST(MpiDebugMoves, StepByCalls) {
    MemoryTrace trace(2);
    trace.append(0, {.kind = Kind::send, .peer = 1, .message = 1});
    trace.append(0, {.kind = Kind::receive, .flags = Flag::joined, .peer = 1, .message = 1});  // a Sendrecv
    trace.append(0, {.kind = Kind::internal});
    trace.append(1, {.kind = Kind::receive, .peer = 0, .message = 1});
    trace.append(1, {.kind = Kind::send, .peer = 0, .message = 1});
    const auto computation = Computation::load(trace);
    ASSERT_TRUE(computation) << computation.error().what;
    const Moves moves(*computation);
    EXPECT_EQ(moves.calls(0), 2U);
    EXPECT_EQ(moves.step({0, 0}, 1), (State{0, 2}));
    EXPECT_EQ(moves.step({0, 1}, 1), (State{0, 2}));
    EXPECT_EQ(moves.step({0, 2}, 5), (State{0, 3}));
    EXPECT_EQ(moves.step_back({0, 3}, 1), (State{0, 2}));
    EXPECT_EQ(moves.step_back({0, 2}, 1), (State{0, 0}));
    EXPECT_EQ(moves.step_back({0, 1}, 1), (State{0, 0}));
    EXPECT_EQ(moves.all({1, 1}), (Cut{1, 1}));  // within rank 0's call
    Index sent = causality::none;
    const auto back = moves.back({0, 2}, sent);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, (State{1, 1}));
    const auto forward = moves.forward({0, 0}, sent);  // what it sends next
    ASSERT_TRUE(forward);
    EXPECT_EQ(*forward, (State{1, 1}));
}

// A probe has seen a message that has been sent; the post of a receive, which has a peer as well, hasn't.
TEST(MpiDebugMoves, ProbesComeBehindTheSendAndPostsDoNot) {
    MemoryTrace trace(2);
    trace.append(0, {.kind = Kind::post, .flags = Flag::asks, .peer = 1, .tag = 1, .request = 1});
    trace.append(0, {.kind = Kind::internal, .peer = 1, .tag = 2});            // Probe
    trace.append(0, {.kind = Kind::receive, .peer = 1, .tag = 2});             // what it has found
    trace.append(0, {.kind = Kind::post, .peer = 1, .tag = 3, .request = 2});  // Mprobe
    trace.append(0, {.kind = Kind::receive, .peer = 1, .tag = 3, .request = 2});
    trace.append(0, {.kind = Kind::receive, .peer = 1, .tag = 1, .request = 1});
    for (const int tag : {2, 3, 1}) trace.append(1, {.kind = Kind::send, .peer = 0, .tag = tag});
    const auto computation = Computation::load(trace);
    ASSERT_TRUE(computation) << computation.error().what;
    const Moves moves(*computation);
    EXPECT_EQ(moves.all({0, 1}), (Cut{1, 0}));
    EXPECT_EQ(moves.all({0, 2}), (Cut{2, 1}));
    EXPECT_EQ(moves.all({0, 3}), (Cut{3, 1}));
    EXPECT_EQ(moves.all({0, 4}), (Cut{4, 2}));
    EXPECT_EQ(moves.all({0, 6}), (Cut{6, 3}));
}

}  // namespace
}  // namespace cairn::mpi::debug
