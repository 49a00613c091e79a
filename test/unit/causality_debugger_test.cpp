// Rollback for causal debugging: against the definition of the first consistent state and of what is in
// transit there.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "causality/debugger.h"
#include "test/causality/random.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;
using What = HistoryEntry::What;

struct World {
    std::vector<Recorder> processes;
    std::vector<std::vector<InTransit>> channels;  // to each process, in the order of sending
    std::map<std::pair<Process, std::uint32_t>, SendVector> vectors;
    std::vector<History> histories;

    explicit World(Process n) {
        for (Process p = 0; p < n; ++p) processes.emplace_back(p, n);
        channels.resize(n);
    }
    void send(Process from, Process to) {
        const SendVector& vector = processes[from].send(to);
        vectors[{from, vector[from]}] = vector;
        channels[to].push_back({from, vector[from], from * 1000U + vector[from]});
    }
    void receive(Process to, std::size_t at) {
        const InTransit message = channels[to][at];
        channels[to].erase(channels[to].begin() + static_cast<std::ptrdiff_t>(at));
        processes[to].receive(message.from, vectors.at({message.from, message.number}), message.contents);
    }
    void finish() {
        for (const Recorder& each : processes) histories.push_back(each.history());
    }
};

World random_world(Random& random, bool fifo) {
    const Process n = 2 + random.below(4);
    World world(n);
    const std::uint32_t steps = 5 + random.below(50);
    for (std::uint32_t i = 0; i < steps; ++i) {
        const Process p = random.below(n);
        if (random.chance(15)) {
            world.processes[p].checkpoint();
        } else if (world.channels[p].empty() || random.chance(45)) {
            world.send(p, (p + 1 + random.below(n - 1)) % n);
        } else {
            std::size_t at = random.below(static_cast<std::uint32_t>(world.channels[p].size()));
            for (std::size_t k = 0; fifo && k < at; ++k)
                if (world.channels[p][k].from == world.channels[p][at].from) at = k;
            world.receive(p, at);
        }
    }
    world.finish();
    return world;
}

// Entries of each history that happen before the first `count` of `p` or are these.
std::vector<std::size_t> causal_past(const World& world, Process p, std::size_t count) {
    std::vector<std::size_t> past(world.histories.size());
    past[p] = count;
    for (bool more = true; more;) {
        more = false;
        for (Process q = 0; q < past.size(); ++q)
            for (std::size_t i = 0; i < past[q]; ++i) {
                const HistoryEntry& each = world.histories[q][i];
                if (each.what != What::receive) continue;
                const History& sender = world.histories[each.peer];
                for (std::size_t k = past[each.peer]; k < sender.size(); ++k)
                    if (sender[k].what == What::send && sender[k].number == each.number) {
                        past[each.peer] = k + 1;
                        more = true;
                    }
            }
    }
    return past;
}

void compare(const World& world, Process sender, std::uint32_t number) {
    const auto rollback = backward(world.histories, world.channels, sender, number);
    ASSERT_TRUE(rollback) << rollback.error().what;
    // The target by its definition.
    const History& focus = world.histories[sender];
    std::size_t target = 0;
    for (std::size_t i = 0; i < focus.size(); ++i) {
        if (focus[i].what == What::send && focus[i].number == number) break;
        if (focus[i].what == What::receive) target = i + 1;
    }
    const std::vector<std::size_t> stops = causal_past(world, sender, target);
    for (Process p = 0; p < stops.size(); ++p) {
        const Target& mine = rollback->targets[p];
        const History& history = world.histories[p];
        ASSERT_EQ(mine.run_to, stops[p]);
        // The last checkpoint that lies before.
        std::uint32_t last = 0;
        for (std::size_t i = 0; i < mine.run_to; ++i)
            if (history[i].what == What::checkpoint) last = history[i].number;
        ASSERT_EQ(mine.checkpoint, last);
        // What was sent by others before the cut and not received by us before it, in the order of its
        // receipt, and then what hasn't been received at all.
        std::vector<InTransit> queue;
        const auto sent = [&](Process from, std::uint32_t which) {
            for (std::size_t i = 0; i < stops[from]; ++i)
                if (world.histories[from][i].what == What::send && world.histories[from][i].number == which)
                    return true;
            return false;
        };
        for (std::size_t i = mine.run_to; i < history.size(); ++i)
            if (history[i].what == What::receive && sent(history[i].peer, history[i].number))
                queue.push_back({history[i].peer, history[i].number, history[i].contents});
        for (const InTransit& each : world.channels[p])
            if (sent(each.from, each.number)) queue.push_back(each);
        ASSERT_EQ(mine.queue, queue);
        // No orphan: what has been received has been sent.
        for (std::size_t i = 0; i < mine.run_to; ++i)
            ASSERT_TRUE(history[i].what != What::receive || sent(history[i].peer, history[i].number));
    }
}

TEST(CausalityDebugger, GoesBackToTheFirstConsistentState) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
            const World world = random_world(random, random.chance(50));
            for (Process p = 0; p < world.histories.size(); ++p)
                for (const HistoryEntry& each : world.histories[p])
                    if (each.what == What::send) compare(world, p, each.number);
            if (HasFatalFailure()) FAIL() << "case " << i;
        }
    }
}

TEST(CausalityDebugger, GoesForwardToTheReceipt) {
    Random random(4);
    for (std::uint32_t i = 0; i < test::cases(1000); ++i) {
        const World world = random_world(random, random.chance(50));
        for (Process p = 0; p < world.histories.size(); ++p)
            for (std::size_t at = 0; at < world.histories[p].size(); ++at) {
                const HistoryEntry& each = world.histories[p][at];
                if (each.what != What::receive) continue;
                const std::vector<std::size_t> nothing(world.histories.size());
                const auto stops = forward(world.histories, nothing, each.peer, each.number, p);
                ASSERT_TRUE(stops);
                ASSERT_EQ(*stops, causal_past(world, p, at + 1));
                // Nobody goes back.
                ASSERT_EQ(*forward(world.histories, *stops, each.peer, each.number, p), *stops);
            }
    }
    const World empty(2);
    EXPECT_FALSE(backward(std::vector<History>(2), empty.channels, 0, 1));
    EXPECT_FALSE(backward(std::vector<History>(2), empty.channels, 2, 1));
    EXPECT_FALSE(forward(std::vector<History>(2), std::vector<std::size_t>(2), 0, 1, 1));
}

// Figure 2 of the paper: e in P2 has SV = <3,3,4>: P1 stops right after its send 3, P3 right after its
// send 4.
TEST(CausalityDebugger, TheExampleOfThePaper) {
    World world(3);
    constexpr Process p1 = 0, p2 = 1, p3 = 2;
    for (int i = 0; i < 3; ++i) world.send(p2, p1);  // SV[2] = 3
    for (int i = 0; i < 2; ++i) world.send(p1, p2);
    world.processes[p1].checkpoint();
    for (int i = 0; i < 4; ++i) world.send(p3, i < 3 ? p1 : p2);
    world.processes[p2].checkpoint();
    world.receive(p2, 2);  // from P3: SV = <0,3,4>
    world.send(p1, p2);    // P1's send 3
    world.receive(p2, 2);  // e: SV = <3,3,4>
    EXPECT_EQ(world.processes[p2].vector(), (SendVector{3, 3, 4}));
    const std::size_t e = world.processes[p2].history().size();
    world.send(p2, p1);  // M, number 4
    world.send(p1, p3);
    world.send(p3, p2);
    world.processes[p1].checkpoint();
    world.receive(p1, world.channels[p1].size() - 1);  // M
    world.finish();
    const auto rollback = backward(world.histories, world.channels, p2, 4);
    ASSERT_TRUE(rollback);
    EXPECT_EQ(rollback->vector, (SendVector{3, 3, 4}));
    EXPECT_EQ(rollback->targets[p2].run_to, e);
    EXPECT_EQ(rollback->targets[p2].checkpoint, 1U);
    EXPECT_EQ(rollback->targets[p1].checkpoint, 1U);
    EXPECT_EQ(world.histories[p1][rollback->targets[p1].run_to - 1].number, 3U);
    EXPECT_EQ(world.histories[p3][rollback->targets[p3].run_to - 1].number, 4U);
    // M and what was sent after the cut are gone; what P1 and P3 sent to P1 and P2 before it is still on its
    // way.
    EXPECT_EQ(rollback->targets[p1].queue.size(), 6U);
    EXPECT_EQ(rollback->targets[p2].queue.size(), 2U);
    EXPECT_TRUE(rollback->targets[p3].queue.empty());
}

}  // namespace
