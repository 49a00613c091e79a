// Clocks and cuts against their definitions.
#include <gtest/gtest.h>

#include <set>

#include "causality/cuts.h"
#include "test/causality/random.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;

Computation random_computation(Random& random) {
    auto trace = test::random_trace(random, {.processes = 2 + random.below(4),
                                             .events = 6 + random.below(24),
                                             .numbered = random.chance(30),
                                             .requests = random.chance(30),
                                             .posts = random.chance(50)});
    auto loaded = Computation::load(trace);
    EXPECT_TRUE(loaded) << loaded.error().what;
    return std::move(*loaded);
}

// a -> b by the definition: program order, send before receive, and for collectives what each member did
// before, or its post.
std::vector<std::vector<bool>> happens_before(const Computation& c) {
    const auto beginnings = beginnings_of(c);
    const auto entry = [&](Index a) { return beginnings.contains(a) ? beginnings.at(a) : a; };
    std::vector<std::vector<bool>> before(c.size(), std::vector<bool>(c.size()));
    const auto is_next = [&](Index a) { return a + 1 < c.first(c.process_of(a) + 1); };
    for (Index a = 0; a < c.size(); ++a) {
        if (is_next(a)) before[a][a + 1] = true;
        if (c.event(a).kind == Kind::send && c.partner(a) != none) before[a][c.partner(a)] = true;
        if (c.event(a).kind != Kind::collective) continue;
        const Group& group = c.group(a);
        const Process p = c.process_of(a);
        for (const Index b : group.members) {
            if (a == b) continue;
            const bool b_root = c.process_of(b) == group.root;
            if (group.shape == Shape::from_root && p == group.root) before[entry(a)][b] = true;
            if (group.shape == Shape::to_root && b_root) before[entry(a)][b] = true;
            if (group.shape != Shape::all || !group.whole) continue;
            if (entry(a) != a) before[entry(a)][b] = true;
            if (entry(a) == a && c.id(a).position > 0) before[a - 1][b] = true;
        }
    }
    for (Index k = 0; k < c.size(); ++k)
        for (Index a = 0; a < c.size(); ++a)
            if (before[a][k])
                for (Index b = 0; b < c.size(); ++b)
                    if (before[k][b]) before[a][b] = true;
    return before;
}

TEST(CausalityOrder, ClocksSayWhatTheDefinitionSays) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
            const Computation c = random_computation(random);
            const auto before = happens_before(c);
            const ClockTable full(c), sends(c, Tick::transmissions);
            std::vector<std::uint32_t> clock(c.processes());
            for (Index b = 0; b < c.size(); ++b) {
                full.clock(b, clock);
                for (Process p = 0; p < c.processes(); ++p) ASSERT_EQ(clock[p], full.component(b, p));
                for (Index a = 0; a < c.size(); ++a) {
                    ASSERT_EQ(full.before(a, b), before[a][b])
                        << "case " << i << ": " << c.text(a) << ", " << c.text(b);
                    ASSERT_EQ(sends.before(a, b), before[a][b])
                        << "case " << i << ": " << c.text(a) << ", " << c.text(b);
                }
            }
        }
    }
}

// Who waits first for what others began last: a circle, if an operation were its end alone.
TEST(CausalityOrder, OperationsThatBeginWithAPostEndInAnyOrder) {
    MemoryTrace trace(2);
    for (Process p = 0; p < 2; ++p)
        for (const std::uint32_t request : {1U, 2U})
            trace.append(p, {.kind = Kind::post, .flags = Flag::for_collective, .request = request});
    const auto end = [&](Process p, Shape shape, Process root, std::uint32_t request) {
        trace.append(p, {.kind = Kind::collective, .shape = shape, .peer = root, .request = request});
    };
    end(0, Shape::all, none, 1);
    end(0, Shape::from_root, 1, 2);
    end(1, Shape::from_root, 1, 2);
    trace.append(1, {});
    end(1, Shape::all, none, 1);
    const auto loaded = Computation::load(trace);
    ASSERT_TRUE(loaded) << loaded.error().what;
    const ClockTable clocks(*loaded);
    const Index first_end = loaded->index({0, 2}), between = loaded->index({1, 3});
    EXPECT_TRUE(clocks.before(loaded->index({1, 0}), first_end));
    EXPECT_FALSE(clocks.before(between, first_end));
    EXPECT_TRUE(clocks.before(loaded->index({1, 1}), loaded->index({0, 3})));
}

TEST(CausalityOrder, WhatOpensAnOperationNamesItsCommunicator) {
    MemoryTrace trace(2);
    trace.communicator({.id = 5, .members = {0, 1}});
    trace.append(0, {.kind = Kind::post, .flags = Flag::for_collective, .request = 1});
    trace.append(0, {.kind = Kind::collective, .shape = Shape::all, .communicator = 5, .request = 1});
    const auto loaded = Computation::load(trace);
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().what.find("no operation of this communicator"), std::string::npos)
        << loaded.error().what;
}

// Long enough for several anchors of the table, with messages that overtake each other by far.
TEST(CausalityOrder, LongHistoriesKeepTheirClocks) {
    Random random(7);
    auto trace = test::random_trace(random, {.processes = 6, .events = 300, .numbered = true});
    const auto loaded = Computation::load(trace);
    ASSERT_TRUE(loaded);
    const auto before = happens_before(*loaded);
    const ClockTable full(*loaded), sends(*loaded, Tick::transmissions);
    for (Index a = 0; a < loaded->size(); ++a)
        for (Index b = 0; b < loaded->size(); ++b) {
            ASSERT_EQ(full.before(a, b), before[a][b]);
            ASSERT_EQ(sends.before(a, b), before[a][b]);
        }
}

// The send-event vector of a causal debugger: procedure 1 of Aoyagi and Manabe, run by hand.
TEST(CausalityOrder, TransmissionClocksAreSendEventVectors) {
    Random random(3);
    for (int i = 0; i < 200; ++i) {
        auto trace = test::random_trace(random, {.processes = 4, .events = 40, .collectives = false});
        const auto c = Computation::load(trace);
        ASSERT_TRUE(c);
        const ClockTable table(*c, Tick::transmissions);
        std::vector<std::vector<std::uint32_t>> now(4, std::vector<std::uint32_t>(4)), carried(c->size());
        for (const Index e : c->order()) {
            const Process p = c->process_of(e);
            if (c->event(e).kind == Kind::send) {
                ++now[p][p];
                carried[e] = now[p];
            } else if (c->event(e).kind == Kind::receive) {
                now[p] = join(now[p], carried[c->partner(e)]);
            }
            std::vector<std::uint32_t> clock(4);
            table.clock(e, clock);
            ASSERT_EQ(clock, now[p]);
        }
    }
}

TEST(CausalityCuts, AreWhatTheDefinitionSays) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(300) && i < 3000; ++i) {
            auto trace = test::random_trace(random, {.processes = 2 + random.below(2),
                                                     .events = 4 + random.below(12),
                                                     .posts = random.chance(40)});
            const auto loaded = Computation::load(trace);
            ASSERT_TRUE(loaded);
            const Computation& c = *loaded;
            const auto before = happens_before(c);
            const ClockTable clocks(c);
            std::set<Cut> all;
            Cut cut(c.processes());
            const auto inside = [&](Index e) { return c.id(e).position < cut[c.process_of(e)]; };
            for (;;) {
                bool good = true;
                for (Index b = 0; b < c.size(); ++b)
                    for (Index a = 0; a < c.size(); ++a)
                        good = good && !(before[a][b] && inside(b) && !inside(a));
                ASSERT_EQ(consistent(c, clocks, cut), good);
                if (good) all.insert(cut);
                Process p = 0;
                while (p < cut.size() && cut[p] == c.size(p)) cut[p++] = 0;
                if (p == cut.size()) break;
                ++cut[p];
            }
            std::set<Cut> visited;
            for_each_consistent_cut(c, clocks, [&](const Cut& each) {
                EXPECT_TRUE(visited.insert(each).second);
                return true;
            });
            ASSERT_EQ(visited, all);
            for (Index e = 0; e < c.size(); ++e) {
                const EventId id = c.id(e);
                const Cut early = earliest_after(c, clocks, e), late = latest_before(c, clocks, e);
                EXPECT_TRUE(all.contains(early));
                EXPECT_TRUE(all.contains(late));
                for (const Cut& each : all) {
                    if (each[id.process] > id.position) {
                        EXPECT_TRUE(within(early, each));
                    } else {
                        EXPECT_TRUE(within(each, late));
                    }
                }
            }
        }
    }
}

}  // namespace
