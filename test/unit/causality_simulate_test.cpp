// The simulator: the same traffic for every protocol, and what their promises mean there.
#include <gtest/gtest.h>

#include "causality/simulate.h"

namespace {

using namespace cairn::causality;

TEST(CausalitySimulate, EveryProtocolOnEveryTraffic) {
    for (const Traffic traffic : every_traffic)
        for (const Encoding encoding : {Encoding::full, Encoding::differences}) {
            std::uint64_t forced[7] = {};
            std::optional<Outcome> first;
            for (const ProtocolKind kind : every_protocol) {
                const Scenario scenario{.traffic = traffic,
                                        .processes = 10,
                                        .messages = 3000,
                                        .checkpoint_every = 8,
                                        .failures = 20,
                                        .encoding = encoding};
                const Outcome outcome = simulate(scenario, kind);
                forced[static_cast<int>(kind)] = outcome.forced;
                if (!first) first = outcome;
                EXPECT_EQ(outcome.messages, 3000U);
                EXPECT_EQ(outcome.basic, first->basic);
                EXPECT_GT(outcome.basic, 100U);
                EXPECT_EQ(outcome.failures, 20U);
                const Outcome again = simulate(scenario, kind);
                EXPECT_EQ(outcome.control_bytes, again.control_bytes);
                EXPECT_EQ(outcome.mean_undone, again.mean_undone);
                const bool promises = kind != ProtocolKind::uncoordinated && kind != ProtocolKind::logging;
                EXPECT_TRUE(!promises || outcome.useless == 0) << name(kind) << " on " << name(traffic);
                // Without useless checkpoints a failure undoes no more than the least lucky have done since
                // their last one.
                EXPECT_TRUE(!promises || outcome.mean_undone <= first->mean_undone + 1) << name(kind);
                EXPECT_EQ(outcome.logged > 0, kind == ProtocolKind::logging);
            }
            EXPECT_GE(forced[static_cast<int>(ProtocolKind::russell)],
                      forced[static_cast<int>(ProtocolKind::fdas)]);
            EXPECT_GE(forced[static_cast<int>(ProtocolKind::fdas)],
                      forced[static_cast<int>(ProtocolKind::bhmr)]);
            EXPECT_GE(forced[static_cast<int>(ProtocolKind::bcs)],
                      forced[static_cast<int>(ProtocolKind::bcs_sent)]);
        }
}

// Figure 8.5 over and over: a failure sends both to the start, and an index protocol prevents it.
TEST(CausalitySimulate, ARecordedPatternHasItsDominoEffect) {
    Pattern pattern(2);
    for (int round = 0; round < 100; ++round) {
        const auto a = pattern.send(0);
        pattern.receive(1, a);
        pattern.checkpoint(1);
        const auto b = pattern.send(1);
        pattern.receive(0, b);
        pattern.checkpoint(0);
    }
    const Scenario scenario{.failures = 50, .recorded = &pattern};
    const Outcome free = simulate(scenario, ProtocolKind::uncoordinated);
    EXPECT_EQ(free.basic, 200U);
    EXPECT_EQ(free.messages, 200U);
    EXPECT_GT(free.to_start, 10U);
    EXPECT_GT(free.most_domino, 150U);
    EXPECT_GT(free.useless, 150U);
    const Outcome index = simulate(scenario, ProtocolKind::bcs);
    EXPECT_EQ(index.useless, 0U);
    EXPECT_LE(index.most_undone, 2U);
    EXPECT_GT(index.forced, 50U);
}

TEST(CausalitySimulate, ThePlotHasALineForEachSeries) {
    const std::string svg =
        plot_svg("a < b", "x", {1, 10, 100}, "y", {{"one", {1, 2, 3}}, {"two", {0, 0, 0}}});
    EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
    std::size_t lines = 0;
    for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1))
        ++lines;
    EXPECT_EQ(lines, 2U);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(plot_svg("", "x", {5}, "y", {{"one", {0}}}).find("nan"), std::string::npos);
}

}  // namespace
