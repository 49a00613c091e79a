// The simulator's forms of protocols, which share what processes know, against the objects that run inside
// programs: the same answers and the same control data, byte by byte.
#include <gtest/gtest.h>

#include "causality/protocol/together.h"
#include "causality/simulate.h"
#include "test/causality/random.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;

struct Counts {
    std::uint64_t forced = 0, messages = 0, logged = 0, most_kept = 0;
};

// A made-up program under both. `busy`: how many partners a process has; few ones make for long ways.
void compare(Together& shared, Together& encoded, Process n, std::uint32_t steps, std::uint32_t checkpoints,
             bool fifo, Process partners, Random& random, Counts& counts) {
    struct Transit {
        Process from, to;
        std::uint32_t slot;
    };
    std::deque<Transit> transit;
    std::vector<std::uint32_t> unused;
    std::uint32_t slots = 0;
    const auto take_checkpoint = [&](Process p) {
        shared.take_checkpoint(p);
        encoded.take_checkpoint(p);
        ASSERT_EQ(shared.log_size(p), encoded.log_size(p));
        const LoggedCheckpoint a = shared.checkpoint(p), b = encoded.checkpoint(p);
        ASSERT_EQ(a.checkpoints, b.checkpoints);
        ASSERT_EQ(a.sent, b.sent);
        ASSERT_EQ(a.received, b.received);
        ASSERT_EQ(a.log, b.log);
        counts.logged += a.log.size();
    };
    const auto deliver = [&](std::size_t at) {
        const auto [from, to, slot] = transit[at];
        // As it was when it was sent, whatever has happened since.
        ASSERT_EQ(shared.piggyback(slot), encoded.piggyback(slot));
        const bool force = encoded.receive(to, slot);
        ASSERT_EQ(shared.receive(to, slot), force);
        if (force) {
            ++counts.forced;
            ASSERT_NO_FATAL_FAILURE(take_checkpoint(to));
        }
        shared.deliver(to, slot);
        encoded.deliver(to, slot);
        unused.push_back(slot);
        transit.erase(transit.begin() + static_cast<std::ptrdiff_t>(at));
    };
    for (std::uint32_t i = 0; i < steps; ++i) {
        const Process p = random.below(n);
        if (random.chance(checkpoints)) {
            ASSERT_NO_FATAL_FAILURE(take_checkpoint(p));
        } else if (transit.empty() || random.chance(50)) {
            std::uint32_t slot = slots;
            if (unused.empty()) {
                ++slots;
            } else {
                slot = unused.back();
                unused.pop_back();
            }
            const Process to = (p + 1 + random.below(partners)) % n;
            ASSERT_EQ(shared.send(p, to, slot), encoded.send(p, to, slot));
            transit.push_back({p, to, slot});
            ++counts.messages;
        } else {
            std::size_t at = random.below(static_cast<std::uint32_t>(transit.size()));
            for (std::size_t k = 0; fifo && k < at; ++k)
                if (transit[k].from == transit[at].from && transit[k].to == transit[at].to) at = k;
            ASSERT_NO_FATAL_FAILURE(deliver(at));
        }
        if (const auto* bhmr = dynamic_cast<const BhmrTogether*>(&shared))
            counts.most_kept = std::max<std::uint64_t>(counts.most_kept, bhmr->kept());
    }
    while (!transit.empty()) ASSERT_NO_FATAL_FAILURE(deliver(0));
    for (Process p = 0; p < n; ++p) ASSERT_NO_FATAL_FAILURE(take_checkpoint(p));
}

TEST(CausalityTogether, SmallOnesAnswerAsTheObjectsInProgramsDo) {
    Counts bhmr, fdas, logging;
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
            const Process n = 2 + random.below(6), partners = 1 + random.below(n - 1);
            const std::uint32_t steps = 10 + random.below(150), checkpoints = random.below(40);
            const bool fifo = random.chance(50);
            const auto encoded = make_encoded(ProtocolKind::bhmr, n, Encoding::full);
            // What nobody can ask for is looked for every few messages, or never.
            BhmrTogether shared(n, random.chance(50) ? 0 : 4096);
            compare(shared, *encoded, n, steps, checkpoints, fifo, partners, random, bhmr);
            ASSERT_FALSE(HasFatalFailure()) << "bhmr, seed " << seed << ", case " << i;
            const auto plain = make_encoded(ProtocolKind::logging, n, Encoding::full);
            LoggingTogether versions(n);
            const auto encoded_fdas = make_encoded(ProtocolKind::fdas, n, Encoding::full);
            FdasTogether vectors(n);
            compare(vectors, *encoded_fdas, n, steps, checkpoints, fifo, partners, random, fdas);
            ASSERT_FALSE(HasFatalFailure()) << "fdas, seed " << seed << ", case " << i;
            // Counts on channels that keep the order, but is the same where they don't.
            compare(versions, *plain, n, steps, checkpoints, fifo || i % 4 != 0, partners, random, logging);
            ASSERT_FALSE(HasFatalFailure()) << "logging, seed " << seed << ", case " << i;
        }
    }
    EXPECT_GT(bhmr.forced, 100U);
    EXPECT_LT(bhmr.forced, bhmr.messages / 2);
    EXPECT_GT(fdas.forced, 100U);
    EXPECT_EQ(logging.forced, 0U);
    EXPECT_GT(logging.logged, 100U);
    EXPECT_LT(logging.logged, logging.messages);
}

// More than one word of a row, and processes that hear of each other late.
TEST(CausalityTogether, LargeOnesToo) {
    Counts bhmr, logging;
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < std::max(4U, test::cases(1500) / 40); ++i) {
            const Process n = 60 + random.below(12), partners = i % 4 == 0 ? n - 1 : 1 + random.below(4);
            const bool fifo = random.chance(50);
            const std::uint32_t checkpoints = random.below(20);
            const auto encoded = make_encoded(ProtocolKind::bhmr, n, Encoding::full);
            BhmrTogether shared(n, n + random.below(500));
            compare(shared, *encoded, n, 1500, checkpoints, fifo, partners, random, bhmr);
            ASSERT_FALSE(HasFatalFailure()) << "bhmr, seed " << seed << ", case " << i;
            if (i % 4 != 0) continue;
            const auto plain = make_encoded(ProtocolKind::logging, n, Encoding::full);
            LoggingTogether versions(n);
            compare(versions, *plain, n, 600, checkpoints, true, partners, random, logging);
            ASSERT_FALSE(HasFatalFailure()) << "logging, seed " << seed << ", case " << i;
        }
    }
    EXPECT_GT(bhmr.forced, 100U);
    EXPECT_LT(bhmr.forced, bhmr.messages);
    EXPECT_GT(logging.logged, 10U);
}

// As many vectors are kept as are asked for, however long the run.
TEST(CausalityTogether, MemoryDoesNotGrowWithTheRun) {
    Random random(3);
    constexpr Process n = 8;
    BhmrTogether together(n, 64);
    std::size_t most = 0;
    for (int i = 0; i < 100000; ++i) {
        const Process from = random.below(n), to = (from + 1 + random.below(n - 1)) % n;
        static_cast<void>(together.send(from, to, 0));
        if (together.receive(to, 0) || random.chance(5)) together.take_checkpoint(to);
        together.deliver(to, 0);
        most = std::max(most, together.kept());
    }
    EXPECT_LE(most, 64 + n * n * 4);
}

}  // namespace
