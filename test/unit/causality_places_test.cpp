// Places against algorithm 2 of the paper, and against trying all cuts.
#include <gtest/gtest.h>

#include <set>

#include "causality/places.h"
#include "causality/trace_json.h"
#include "test/causality/algorithm2.h"
#include "test/causality/random.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;

Computation computation(const std::string& lines) {
    auto trace = parse_trace_lines(lines, "t");
    EXPECT_TRUE(trace) << trace.error().what;
    auto loaded = Computation::load(**trace);
    EXPECT_TRUE(loaded) << loaded.error().what;
    return std::move(*loaded);
}

template <class Visit>
void each_cut(const Computation& c, Visit visit) {
    Cut cut(c.processes());
    for (;;) {
        visit(cut);
        Process p = 0;
        while (p < cut.size() && cut[p] == c.size(p)) cut[p++] = 0;
        if (p == cut.size()) return;
        ++cut[p];
    }
}

// "Every operation begun is complete", word by word, with calls and requests.
bool is_place(const Computation& c, const Cut& cut) {
    const auto inside = [&](Index e) { return c.id(e).position < cut[c.process_of(e)]; };
    for (Index e = 0; e < c.size(); ++e) {
        const Event& event = c.event(e);
        const Position at = c.id(e).position;
        const Process p = c.process_of(e);
        if (event.kind == Kind::send && inside(e) && (c.partner(e) == none || !inside(c.partner(e))))
            return false;
        if (event.kind == Kind::receive && inside(e) && !inside(c.partner(e))) return false;
        if (event.kind == Kind::collective && inside(e)) {
            const Group& group = c.group(e);
            if (!group.whole) return false;
            for (const Index other : group.members)
                if (!inside(other)) return false;
        }
        if (event.has(Flag::joined) && cut[p] == at) return false;
        if (event.has(Flag::nondeterministic) && (cut[p] == at || cut[p] == at + 1)) return false;
        if (event.opens() && inside(e)) {
            bool closed = false;
            for (Index k = e + 1; k < c.first(p + 1) && !closed; ++k)
                if (c.event(k).closes() && c.event(k).request == event.request) {
                    closed = true;
                    if (!inside(k)) return false;
                }
            if (!closed) return false;
        }
    }
    return true;
}

std::int64_t arrival(const Computation& c, Process p, Position cut) {
    std::int64_t begun = INT64_MAX;
    for (Process q = 0; q < c.processes(); ++q)
        if (c.size(q) > 0) begun = std::min(begun, c.event(c.first(q)).time);
    return cut == 0 ? begun : c.event(c.first(p) + cut - 1).time;
}

// The shortest wait of all places but the first and the full one, at any time.
void compare_best(const Computation& c, const Places& places, const std::set<Cut>& all) {
    if (all.size() <= 2) return;
    const auto wait = [&](const Cut& cut) {
        std::int64_t least = INT64_MAX, most = INT64_MIN;
        for (Process p = 0; p < c.processes(); ++p) {
            least = std::min(least, arrival(c, p, cut[p]));
            most = std::max(most, arrival(c, p, cut[p]));
        }
        return std::pair(most - least, most);
    };
    const auto best = places.best(4, 0);
    std::set<Cut> distinct;
    std::int64_t before = INT64_MIN;
    for (const auto& each : best) {
        EXPECT_TRUE(all.contains(each.cut));
        EXPECT_TRUE(distinct.insert(each.cut).second);
        EXPECT_EQ(wait(each.cut), std::pair(each.wait, each.time));
        EXPECT_GT(each.time, before);
        before = each.time;
        // No other place with its last arrival at that time is better, unless it is part of the very
        // last.
        for (const Cut& cut : all)
            EXPECT_TRUE(cut == *places.first() || wait(*places.last()).second == each.time ||
                        wait(cut).second != each.time || each.wait <= wait(cut).first);
    }
}

void compare(const Computation& c, bool with_oracle) {
    const Places places(c);
    std::set<Cut> all;
    each_cut(c, [&](const Cut& cut) {
        const bool good = is_place(c, cut);
        ASSERT_EQ(places.is_place(cut), good);
        if (good) all.insert(cut);
    });
    std::set<Cut> visited;
    places.for_each([&](const Cut& cut) {
        EXPECT_TRUE(visited.insert(cut).second);
        return true;
    });
    ASSERT_EQ(visited, all);
    if (with_oracle) {
        std::set<Cut> found;
        test::Algorithm2 oracle(c);
        oracle.run([&](const Cut& cut) {
            EXPECT_TRUE(found.insert(cut).second);
            return true;
        });
        ASSERT_EQ(found, all);
    }
    ASSERT_EQ(places.first().has_value(), !all.empty());
    ASSERT_EQ(places.last().has_value(), !all.empty());
    for (Index e = 0; e < c.size(); ++e) {
        const EventId id = c.id(e);
        std::optional<Cut> early, late;
        for (const Cut& each : all) {
            if (each[id.process] > id.position)
                early = early ? meet(*early, each) : each;
            else
                late = late ? join(*late, each) : each;
        }
        EXPECT_EQ(places.earliest_after(e), early);
        EXPECT_EQ(places.latest_before(e), late);
    }
    compare_best(c, places, all);
    for (const auto& line : places.lines()) {
        EXPECT_TRUE(all.contains(line.cut));
        for (Process p = 0; p < c.processes(); ++p) {
            // The pass that it names, counted by hand.
            std::uint32_t pass = 0;
            Position at = 0;
            for (Position k = 0; k < c.size(p); ++k) {
                const Event& event = c.event(c.first(p) + k);
                if (event.place != line.place || event.has(Flag::joined)) continue;
                if (pass++ == line.first_good) at = k;
            }
            ASSERT_GE(pass, line.passes);
            if (line.after) do
                    ++at;
                while (at < c.size(p) && c.event(c.first(p) + at).has(Flag::joined));
            EXPECT_EQ(line.cut[p], at);
        }
    }
}

TEST(CausalityPlaces, EqualAlgorithm2OnRandomTraces) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
            auto trace = test::random_trace(random, {.processes = 2 + random.below(3),
                                                     .events = 3 + random.below(10),
                                                     .nondeterministic = random.chance(30),
                                                     .unfinished = random.chance(50)});
            // The paper has neither calls of several actions nor requests.
            for (Process p = 0; p < trace.processes(); ++p)
                for (Event& event : trace.events(p)) event.flags &= static_cast<std::uint8_t>(~Flag::joined);
            const auto loaded = Computation::load(trace);
            ASSERT_TRUE(loaded);
            compare(*loaded, true);
            if (HasFailure()) FAIL() << "case " << i;
        }
    }
}

TEST(CausalityPlaces, KnowCallsOfSeveralActionsAndOpenRequests) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
            auto trace = test::random_trace(random, {.processes = 2 + random.below(2),
                                                     .events = 3 + random.below(14),
                                                     .requests = true,
                                                     .nondeterministic = random.chance(30),
                                                     .unfinished = random.chance(50),
                                                     .lines = 2});
            const auto loaded = Computation::load(trace);
            ASSERT_TRUE(loaded);
            compare(*loaded, false);
            if (HasFailure()) FAIL() << "case " << i;
        }
    }
}

// After any barrier there is a place, which the printed form of the paper's statement 4 rejects.
TEST(CausalityPlaces, AreBehindABarrier) {
    const Computation c = computation(R"({"cairn-trace":1,"processes":2}
{"p":0,"e":"send","to":1,"at":"s.c:1","time":10}
{"p":1,"e":"receive","from":0,"at":"s.c:2","time":20}
{"p":0,"e":"collective","shape":"all","at":"s.c:3","time":30}
{"p":1,"e":"collective","shape":"all","at":"s.c:3","time":31}
{"p":1,"e":"send","to":0,"at":"s.c:1","time":40}
{"p":0,"e":"receive","from":1,"at":"s.c:2","time":50}
)");
    compare(c, true);
    const Places places(c);
    EXPECT_EQ(places.earliest_after(c.index({0, 1})), (Cut{2, 2}));
    EXPECT_EQ(places.latest_before(c.index({1, 2})), (Cut{2, 2}));
    EXPECT_EQ(places.first(), (Cut{0, 0}));
    EXPECT_EQ(places.last(), (Cut{3, 3}));
    const auto lines = places.lines();
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(c.places()[lines[0].place].line, 3U);
    EXPECT_TRUE(lines[0].after || lines[0].cut == (Cut{1, 1}));
    const auto obstacle = places.obstacle({1, 0});
    ASSERT_TRUE(obstacle);
    EXPECT_EQ(obstacle->before, c.index({0, 0}));
    EXPECT_EQ(obstacle->behind, c.index({1, 0}));
}

// The paper's dead end (section 4, the necessary condition): an action of the first process that is before
// the checkpoint needs one of the third that is behind it.
TEST(CausalityPlaces, AreNoDeadEnds) {
    const Computation c = computation(R"({"cairn-trace":1,"processes":3}
{"p":0,"e":"receive","from":2}
{"p":1,"e":"internal"}
{"p":2,"e":"send","to":0}
)");
    compare(c, true);
    const Places places(c);
    const auto obstacle = places.obstacle({1, 0, 0});
    ASSERT_TRUE(obstacle);
    EXPECT_EQ(obstacle->before, c.index({0, 0}));
    EXPECT_EQ(obstacle->behind, c.index({2, 0}));
    EXPECT_EQ(places.earliest_after(c.index({0, 0})), (Cut{1, 0, 1}));
}

// A message that is never received, and a barrier that not everybody enters, are before no place.
TEST(CausalityPlaces, AreNotBehindWhatIsNeverComplete) {
    const Computation c = computation(R"({"cairn-trace":1,"processes":3}
{"p":0,"e":"internal"}
{"p":0,"e":"send","to":1}
{"p":0,"e":"internal"}
{"p":1,"e":"collective","shape":"all"}
{"p":2,"e":"internal"}
{"p":2,"e":"collective","shape":"all"}
)");
    compare(c, true);
    EXPECT_EQ(Places(c).last(), (Cut{1, 0, 1}));
    EXPECT_EQ(Places(c).earliest_after(c.index({0, 2})), std::nullopt);
}

// Everything between two nondeterministic ends: no place at all, not even before everything.
TEST(CausalityPlaces, MayNotExist) {
    const Computation c = computation(R"({"cairn-trace":1,"processes":1}
{"p":0,"e":"internal","nondeterministic":true}
)");
    EXPECT_EQ(Places(c).first(), std::nullopt);
    EXPECT_EQ(Places(c).last(), std::nullopt);
    EXPECT_TRUE(Places(c).best(3, 0).empty());
    compare(c, true);
}

// Two of three processes swap messages of which one is always under way: the only places are before and
// behind all.
TEST(CausalityPlaces, AContinuousExchangeHasNone) {
    std::string lines = "{\"cairn-trace\":1,\"processes\":2}\n";
    for (int i = 0; i < 20; ++i) {
        lines += R"({"p":0,"e":"send","to":1})"
                 "\n"
                 R"({"p":1,"e":"send","to":0})"
                 "\n";
        if (i == 0) continue;
        lines += R"({"p":0,"e":"receive","from":1})"
                 "\n"
                 R"({"p":1,"e":"receive","from":0})"
                 "\n";
    }
    lines += R"({"p":0,"e":"receive","from":1})"
             "\n"
             R"({"p":1,"e":"receive","from":0})"
             "\n";
    const Computation c = computation(lines);
    int count = 0;
    Places(c).for_each([&](const Cut&) { return ++count < 100; });
    EXPECT_EQ(count, 2);
}

}  // namespace
