// The zigzag relation and what follows from it, against its definition: sequences of messages, tried one by
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "causality/cuts.h"
#include "causality/pattern.h"
#include "test/causality/random.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;

// A pattern by its definition.
struct Definition {
    struct Message {
        Process from = none, to = none;
        std::uint32_t sent_in = 0, received_in = 0;  // intervals
        std::size_t sent_at = 0, received_at = 0;    // steps
    };
    std::vector<Message> messages;
    std::vector<Checkpoint> all;
    std::map<Checkpoint, std::map<Checkpoint, bool>> zigzag, causal;
    Process n;

    explicit Definition(const Pattern& pattern) : n(pattern.processes()) {
        std::vector<Message> every(pattern.messages());
        std::vector<std::uint32_t> interval(n, 1);
        std::size_t at = 0;
        for (const Pattern::Step& step : pattern.steps()) {
            ++at;
            const Process p = step.process();
            if (step.what() == Pattern::What::send) {
                Message& m = every[step.message];
                m.from = p;
                m.sent_in = interval[p];
                m.sent_at = at;
            } else if (step.what() == Pattern::What::receive) {
                Message& m = every[step.message];
                m.to = p;
                m.received_in = interval[p];
                m.received_at = at;
            } else {
                ++interval[p];
            }
        }
        for (const Message& m : every)
            if (m.to != none) messages.push_back(m);
        for (Process p = 0; p < n; ++p)
            for (std::uint32_t x = 0; x < pattern.checkpoints(p); ++x) all.push_back({p, x});
        // Which message may end a sequence that begins with this one: directly as in (b), each step tried.
        for (const Checkpoint a : all) {
            follow(a, false, zigzag[a]);
            follow(a, true, causal[a]);
        }
    }

    // All sequences <m1; ...; mq> from behind `a`, no message twice in one of them.
    void follow(Checkpoint a, bool causally, std::map<Checkpoint, bool>& found) {
        for (const Checkpoint b : all) found[b] = a.process == b.process && a.number < b.number;
        std::set<std::size_t> seen;
        std::vector<std::size_t> ends;
        const auto end_with = [&](std::size_t m) {
            if (!seen.insert(m).second) return;
            ends.push_back(m);
        };
        for (std::size_t m = 0; m < messages.size(); ++m)
            if (messages[m].from == a.process && messages[m].sent_in > a.number) end_with(m);
        for (std::size_t i = 0; i < ends.size(); ++i) {  // NOLINT(modernize-loop-convert): it grows
            const Message last = messages[ends[i]];
            for (const Checkpoint b : all)
                if (b.process == last.to && last.received_in <= b.number) found[b] = true;
            for (std::size_t m = 0; m < messages.size(); ++m) {
                const Message& next = messages[m];
                if (next.from != last.to) continue;
                if (causally ? next.sent_at > last.received_at : next.sent_in >= last.received_in)
                    end_with(m);
            }
        }
    }

    [[nodiscard]] bool consistent(const GlobalCheckpoint& global) const {
        for (Process p = 0; p < n; ++p)
            for (Process q = 0; q < n; ++q)
                if (causal.at({p, global[p]}).at({q, global[q]})) return false;
        return true;
    }
    template <class Visit>
    void each_global(Visit visit) const {
        GlobalCheckpoint global(n);
        std::vector<std::uint32_t> last(n);
        for (const Checkpoint c : all) last[c.process] = c.number;
        for (;;) {
            visit(global);
            Process p = 0;
            while (p < n && global[p] == last[p]) global[p++] = 0;
            if (p == n) return;
            ++global[p];
        }
    }
};

// Theorems 10 and 11.
void compare_dates(const Zigzag& graph, const Definition& definition, bool cycle) {
    const auto dates = graph.dates();
    ASSERT_EQ(dates.has_value(), !cycle);
    if (dates) {
        for (const Checkpoint b : definition.all) {
            std::uint32_t expected = 0;
            for (const Checkpoint a : definition.all)
                if (definition.zigzag.at(a).at(b))
                    expected = std::max(expected, (*dates)[graph.date_index(a)] + 1);
            ASSERT_EQ((*dates)[graph.date_index(b)], expected);
            const GlobalCheckpoint global = graph.of_date(*dates, expected);
            ASSERT_EQ(global[b.process], b.number);
            ASSERT_TRUE(definition.consistent(global));
        }
    }
}

void compare(const Pattern& pattern, Random& random) {
    const Definition definition(pattern);
    const Zigzag graph(pattern);
    const ZigzagTable table(graph);
    const DependenceVectors vectors(pattern);
    bool trackable_by_definition = true, cycle = false;
    for (const Checkpoint a : definition.all)
        for (const Checkpoint b : definition.all) {
            const bool zigzag = definition.zigzag.at(a).at(b), causal = definition.causal.at(a).at(b);
            ASSERT_EQ(graph.zigzag(a, b), zigzag);
            ASSERT_EQ(table.zigzag(a, b), zigzag);
            ASSERT_EQ(vectors.precedes(a, b), causal);
            trackable_by_definition = trackable_by_definition && (!zigzag || causal);
            if (a == b) {
                ASSERT_EQ(graph.useless(a), zigzag);
                cycle = cycle || zigzag;
            }
            // A path exists where messages make the relation; each message is sent where the one before
            // arrives.
            const auto path = graph.path(a, b);
            ASSERT_TRUE(zigzag || path.empty());
            ASSERT_TRUE(!zigzag || !path.empty() || (a.process == b.process && a.number < b.number));
        }
    ASSERT_EQ(graph.z_cycle_free(), !cycle);
    ASSERT_EQ(trackable(pattern, graph), trackable_by_definition);

    // Theorem 9 against trying all global checkpoints.
    std::vector<GlobalCheckpoint> good;
    definition.each_global([&](const GlobalCheckpoint& global) {
        const bool consistent = definition.consistent(global);
        ASSERT_EQ(graph.consistent(global), consistent);
        if (consistent) good.push_back(global);
    });
    for (int i = 0; i < 12; ++i) {
        std::vector<Checkpoint> set;
        for (Process p = 0; p < definition.n; ++p)
            if (random.chance(45)) set.push_back({p, random.below(pattern.checkpoints(p))});
        std::optional<GlobalCheckpoint> least, most;
        for (const GlobalCheckpoint& each : good) {
            if (!std::all_of(set.begin(), set.end(),
                             [&](Checkpoint c) { return each[c.process] == c.number; }))
                continue;
            least = least ? meet(*least, each) : each;
            most = most ? join(*most, each) : each;
        }
        ASSERT_EQ(graph.extends(set), least.has_value());
        ASSERT_EQ(graph.smallest(set), least);
        ASSERT_EQ(graph.largest(set), most);
    }

    ASSERT_NO_FATAL_FAILURE(compare_dates(graph, definition, cycle));

    // The recovery line: the largest of the consistent ones that leave out what is lost.
    for (std::uint32_t failed = 0; failed < 1U << definition.n; ++failed) {
        std::vector<Process> lost;
        for (Process p = 0; p < definition.n; ++p)
            if ((failed >> p & 1U) != 0) lost.push_back(p);
        std::optional<GlobalCheckpoint> largest;
        for (const GlobalCheckpoint& each : good) {
            const bool possible = std::all_of(lost.begin(), lost.end(),
                                              [&](Process p) { return each[p] < pattern.intervals(p); });
            if (possible) largest = largest ? join(*largest, each) : each;
        }
        const auto line = graph.recovery_line(lost);
        ASSERT_EQ(std::optional(line.line), largest);
        ASSERT_TRUE(definition.consistent(line.line));
        std::uint32_t undone = 0;
        for (Process p = 0; p < definition.n; ++p)
            undone += pattern.intervals(p) - ((failed >> p & 1U) != 0 ? 1 : 0) - line.line[p];
        ASSERT_EQ(line.undone, undone);
    }
}

TEST(CausalityZigzag, EqualsTheDefinitionOnRandomPatterns) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1000); ++i) {
            test::PatternShape shape = test::random_shape(random);
            shape.processes = std::min(shape.processes, 4U);
            compare(test::random_pattern(random, shape), random);
            if (HasFatalFailure()) FAIL() << "case " << i << " of seed " << seed;
        }
    }
}

// Later recoveries need nothing that was thrown away, and everything kept may be needed at once.
TEST(CausalityZigzag, WhatIsCollectedIsNeverNeededAgain) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(600); ++i) {
            const test::PatternShape shape = test::random_shape(random);
            const Pattern now = test::random_pattern(random, shape);
            const auto needed = Zigzag(now).needed();
            std::set<Checkpoint> kept;
            for (Process p = 0; p < now.processes(); ++p)
                for (const std::uint32_t x : needed[p]) kept.insert({p, x});
            std::set<Checkpoint> used;
            // Random continuations, in which messages in transit may arrive, with all failures.
            for (int k = 0; k < 6; ++k) {
                Pattern later = now;
                std::vector<std::uint32_t> transit;
                std::vector<bool> received(now.messages());
                for (const Pattern::Step& step : now.steps())
                    if (step.what() == Pattern::What::receive) received[step.message] = true;
                for (std::uint32_t m = 0; m < now.messages(); ++m)
                    if (!received[m]) transit.push_back(m);
                for (std::uint32_t step = 0; step < (k == 0 ? 0 : random.below(12)); ++step) {
                    const Process p = random.below(now.processes());
                    if (random.chance(30))
                        later.checkpoint(p);
                    else if (random.chance(50))
                        transit.push_back(later.send(p));
                    else if (!transit.empty()) {
                        later.receive(p, transit.back());
                        transit.pop_back();
                    }
                }
                const Zigzag graph(later);
                for (std::uint32_t failed = 1; failed < 1U << now.processes(); ++failed) {
                    std::vector<Process> lost;
                    for (Process p = 0; p < now.processes(); ++p)
                        if ((failed >> p & 1U) != 0) lost.push_back(p);
                    const auto line = graph.recovery_line(lost).line;
                    for (Process p = 0; p < now.processes(); ++p) {
                        if (line[p] >= now.intervals(p)) continue;
                        ASSERT_TRUE(kept.contains({p, line[p]})) << "case " << i;
                        if (k == 0) used.insert({p, line[p]});
                    }
                }
            }
            ASSERT_EQ(used, kept) << "case " << i;
        }
    }
}

// Figure 8.1 of Raynal 2013, as far as the text of its chapter gives it. Processes i, j, k.
TEST(CausalityZigzag, TheExampleOfTheBook) {
    constexpr Process i = 0, j = 1, k = 2;
    Pattern pattern(3);
    std::map<int, std::uint32_t> m;
    pattern.checkpoint(j);
    pattern.checkpoint(i);
    m[2] = pattern.send(j);
    m[3] = pattern.send(k);
    pattern.checkpoint(k);
    pattern.receive(j, m[3]);
    pattern.checkpoint(j);
    pattern.receive(i, m[2]);
    pattern.checkpoint(i);
    m[4] = pattern.send(j);
    pattern.receive(k, m[4]);
    m[5] = pattern.send(i);
    pattern.receive(j, m[5]);
    m[6] = pattern.send(j);
    pattern.receive(k, m[6]);
    pattern.checkpoint(k);
    m[7] = pattern.send(k);
    pattern.receive(i, m[7]);
    const Zigzag graph(pattern);
    const DependenceVectors vectors(pattern);
    EXPECT_TRUE(graph.zigzag({i, 2}, {k, 2}));
    EXPECT_TRUE(vectors.precedes({i, 2}, {k, 2}));
    EXPECT_TRUE(graph.zigzag({k, 0}, {i, 2}));
    EXPECT_FALSE(vectors.precedes({k, 0}, {i, 2}));
    EXPECT_EQ(graph.path({k, 0}, {i, 2}), (std::vector{m[3], m[2]}));
    EXPECT_EQ(graph.useless(), (std::vector<Checkpoint>{{k, 2}}));
    EXPECT_EQ(graph.path({k, 2}, {k, 2}), (std::vector{m[7], m[5], m[4]}));
    EXPECT_TRUE(graph.consistent({1, 1, 1}));
    // Its m1, which makes {i2, j2, k1} inconsistent, is in the figure only.
    const Checkpoint lc1[] = {{j, 1}}, lc2[] = {{i, 2}, {k, 0}}, lc3[] = {{k, 2}};
    EXPECT_TRUE(graph.extends(lc1));
    EXPECT_TRUE(graph.consistent({1, 1, 0}));
    EXPECT_TRUE(graph.consistent({1, 1, 1}));
    EXPECT_FALSE(graph.extends(lc2));
    EXPECT_FALSE(graph.extends(lc3));
    EXPECT_FALSE(graph.z_cycle_free());
    EXPECT_FALSE(trackable(pattern, graph));
}

// An operation that nobody but its root entered before the program ended tells nobody anything.
TEST(CausalityZigzag, AnOperationThatIsNotWholeIsNoMessage) {
    MemoryTrace trace(2);
    trace.append(0, {.kind = Kind::collective, .shape = Shape::to_root, .peer = 0});
    trace.append(0, {.kind = Kind::checkpoint});
    trace.append(1, {.kind = Kind::checkpoint});
    const auto loaded = Computation::load(trace);
    ASSERT_TRUE(loaded);
    const Pattern pattern = pattern_of(*loaded);
    EXPECT_EQ(pattern.steps().size(), 2U);
    EXPECT_TRUE(trackable(pattern, Zigzag(pattern)));
}

// Figure 8.5: one process going back takes everybody to the start.
TEST(CausalityZigzag, TheDominoEffect) {
    Pattern pattern(2);
    for (int round = 0; round < 4; ++round) {
        const auto a = pattern.send(0);
        pattern.receive(1, a);
        pattern.checkpoint(1);
        const auto b = pattern.send(1);
        pattern.receive(0, b);
        pattern.checkpoint(0);
    }
    const Process one[] = {1};
    const auto line = Zigzag(pattern).recovery_line(one);
    EXPECT_EQ(line.line, (GlobalCheckpoint{0, 0}));
    EXPECT_EQ(line.undone, 9U);
    EXPECT_EQ(line.most_undone, 5U);
    EXPECT_EQ(line.to_start, 2U);
    EXPECT_EQ(line.rounds, 8U);
    const Process other[] = {0};
    EXPECT_EQ(Zigzag(pattern).recovery_line(other).line, (GlobalCheckpoint{4, 5}));
}

}  // namespace
