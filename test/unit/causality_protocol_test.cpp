// What the protocols promise, checked by the definitions of pattern.h on random runs, and the global
// checkpoints that belong to what they store.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <new>
#include <set>

#include "causality/cuts.h"
#include "causality/protocol/protocols.h"
#include "test/causality/random.h"

namespace {

std::size_t allocations = 0;

}  // namespace

#ifndef __SANITIZE_ADDRESS__
// Counted: the objects run inside programs, and may not allocate for each message.
[[gnu::noinline]] void* operator new(std::size_t size) {
    ++allocations;
    if (void* made = std::malloc(size)) return made;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
#endif

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;

// Runs a made-up program under one protocol; what it does doesn't depend on the protocol.
class Execution {
  public:
    Execution(ProtocolKind kind, Process n, Encoding encoding) : kind_(kind), pattern(n) {
        for (Process p = 0; p < n; ++p) {
            parts.push_back(make_protocol(kind, p, n, encoding));
            dates.emplace_back();
            logs.emplace_back();
            note(p);
        }
        buffer_.resize(parts[0]->most_piggyback());
    }
    void basic(Process p) { take_checkpoint(p, false); }
    std::uint32_t send(Process from, Process to, std::vector<std::uint8_t>& piggyback) {
        const std::size_t size = parts[from]->send(to, buffer_);
        EXPECT_LE(size, parts[from]->most_piggyback());
        bytes += size;
        piggyback.assign(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(size));
        destination.push_back(to);
        return pattern.send(from);
    }
    bool receive(Process from, Process to, std::uint32_t number, std::span<const std::uint8_t> piggyback) {
        const auto force = parts[to]->receive(from, piggyback);
        EXPECT_TRUE(force) << force.error().what;
        if (*force) {
            ++forced;
            take_checkpoint(to, true);
        }
        parts[to]->deliver();
        pattern.receive(to, number);
        return *force;
    }
    // The state at the end is a checkpoint.
    void finish() {
        for (Process p = 0; p < parts.size(); ++p) {
            parts[p]->take_checkpoint();
            note(p);
        }
    }
    void take_checkpoint(Process p, bool by_force) {
        parts[p]->take_checkpoint();
        pattern.checkpoint(p, by_force);
        note(p);
    }
    void note(Process p) {
        if (const auto date = parts[p]->date()) dates[p].push_back(*date);
        if (kind_ == ProtocolKind::logging)
            logs[p].push_back(dynamic_cast<SenderLogging&>(*parts[p]).checkpoint());
        vectors.push_back({{p, static_cast<std::uint32_t>(taken_[p]++)},
                           {parts[p]->vector().begin(), parts[p]->vector().end()}});
    }

    ProtocolKind kind_;
    Pattern pattern;
    std::vector<std::unique_ptr<Protocol>> parts;
    std::vector<std::vector<DatedCheckpoint>> dates;
    std::vector<std::vector<LoggedCheckpoint>> logs;
    std::vector<std::pair<Checkpoint, std::vector<std::uint32_t>>> vectors;
    std::vector<Process> destination;  // of each message
    std::uint64_t forced = 0, bytes = 0;

  private:
    std::map<Process, std::uint32_t> taken_;
    std::vector<std::uint8_t> buffer_;
};

// Drives all of `runs` through the same program.
void drive(std::vector<std::unique_ptr<Execution>>& runs, Random& random, const test::PatternShape& shape) {
    struct Transit {
        Process from, to;
        std::vector<std::uint32_t> number;
        std::vector<std::vector<std::uint8_t>> piggyback;
    };
    std::deque<Transit> transit;
    for (std::uint32_t i = 0; i < shape.steps; ++i) {
        const Process p = random.below(shape.processes);
        if (random.chance(shape.checkpoints)) {
            for (auto& run : runs) run->basic(p);
        } else if (transit.empty() || random.chance(50)) {
            Process to = random.below(shape.processes - 1);
            if (to >= p) ++to;
            Transit& made = transit.emplace_back();
            made.from = p;
            made.to = to;
            for (auto& run : runs) made.number.push_back(run->send(p, to, made.piggyback.emplace_back()));
        } else {
            std::size_t at = random.below(static_cast<std::uint32_t>(transit.size()));
            for (std::size_t k = 0; shape.fifo && k < at; ++k)
                if (transit[k].from == transit[at].from && transit[k].to == transit[at].to) at = k;
            for (std::size_t r = 0; r < runs.size(); ++r)
                runs[r]->receive(transit[at].from, transit[at].to, transit[at].number[r],
                                 transit[at].piggyback[r]);
            transit.erase(transit.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
    for (auto& run : runs) run->finish();
}

std::unique_ptr<Execution> run_of(ProtocolKind kind, Process n, Encoding encoding = Encoding::full) {
    return std::make_unique<Execution>(kind, n, encoding);
}

test::PatternShape long_shape(Random& random) {
    test::PatternShape shape = test::random_shape(random);
    shape.steps += random.below(40);
    return shape;
}

TEST(CausalityProtocol, KeepTheirPromises) {
    std::uint64_t forced[7] = {}, bytes[7] = {};
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
            test::PatternShape shape = long_shape(random);
            std::vector<std::unique_ptr<Execution>> runs;
            for (const ProtocolKind kind : every_protocol)
                if (kind != ProtocolKind::logging || shape.fifo)
                    runs.push_back(run_of(kind, shape.processes));
            drive(runs, random, shape);
            for (auto& run : runs) {
                const Zigzag graph(run->pattern);
                forced[static_cast<int>(run->kind_)] += run->forced;
                bytes[static_cast<int>(run->kind_)] += run->bytes;
                const bool index = run->kind_ == ProtocolKind::bcs || run->kind_ == ProtocolKind::bcs_sent;
                const bool rdt = run->kind_ == ProtocolKind::russell || run->kind_ == ProtocolKind::fdas ||
                                 run->kind_ == ProtocolKind::bhmr;
                ASSERT_TRUE(!(index || rdt) || graph.z_cycle_free()) << name(run->kind_) << ", case " << i;
                ASSERT_TRUE(!rdt || trackable(run->pattern, graph)) << name(run->kind_) << ", case " << i;
                if (index) {
                    // Theorem 10, and the global checkpoint of each date.
                    std::uint32_t last = 0;
                    for (const auto& mine : run->dates)
                        for (const auto& each : mine) last = std::max(last, each.date);
                    for (std::uint32_t date = 1; date <= last + 1; ++date) {
                        const auto global = run->kind_ == ProtocolKind::bcs
                                                ? global_of_date(run->dates, date)
                                                : global_of_date_sent(run->dates, date);
                        ASSERT_TRUE(graph.consistent(global))
                            << name(run->kind_) << ", case " << i << ", date " << date;
                    }
                }
                if (run->kind_ != ProtocolKind::fdas && run->kind_ != ProtocolKind::bhmr) continue;
                // The vectors are the definition's, and give the first consistent global checkpoint with c.
                const DependenceVectors vectors(run->pattern);
                std::vector<std::uint32_t> final;
                for (Process p = 0; p < shape.processes; ++p) final.push_back(run->pattern.intervals(p));
                for (const auto& [c, vector] : run->vectors) {
                    ASSERT_TRUE(std::equal(vector.begin(), vector.end(), vectors[c].begin()));
                    const Checkpoint set[] = {c};
                    ASSERT_EQ(std::optional(global_of_vector(vector, c, final)), graph.smallest(set));
                }
            }
        }
    }
    const auto sum = [&](ProtocolKind kind) { return forced[static_cast<int>(kind)]; };
    EXPECT_GE(sum(ProtocolKind::russell), sum(ProtocolKind::fdas));
    EXPECT_GE(sum(ProtocolKind::fdas), sum(ProtocolKind::bhmr));
    EXPECT_GE(sum(ProtocolKind::bcs), sum(ProtocolKind::bcs_sent));
    EXPECT_EQ(sum(ProtocolKind::uncoordinated) + sum(ProtocolKind::logging), 0U);
    for (const ProtocolKind kind : every_protocol)
        std::printf("%s: %llu forced, %llu bytes\n", std::string(name(kind)).c_str(),
                    static_cast<unsigned long long>(sum(kind)),
                    static_cast<unsigned long long>(bytes[static_cast<int>(kind)]));
}

// Figure 8.9 of Raynal 2013: figure 8.1 under the index protocol with `sent`, one more checkpoint of j and
// message m8.
TEST(CausalityProtocol, TheExampleOfTheBook) {
    constexpr Process i = 0, j = 1, k = 2;
    Execution run(ProtocolKind::bcs_sent, 3, Encoding::full);
    std::map<int, std::pair<Process, std::uint32_t>> sent;
    std::map<int, std::vector<std::uint8_t>> piggyback;
    const auto send = [&](int m, Process from, Process to) {
        sent[m] = {from, run.send(from, to, piggyback[m])};
    };
    const auto receive = [&](int m, Process to) {
        return run.receive(sent[m].first, to, sent[m].second, piggyback[m]);
    };
    const auto date = [&](Process p) { return run.dates[p].back().date; };
    run.basic(j);
    run.basic(i);
    send(2, j, i);
    send(3, k, j);
    run.basic(k);
    EXPECT_EQ(date(k), 2U);
    EXPECT_FALSE(receive(3, j));  // its date is 1: nothing to prevent
    EXPECT_FALSE(receive(2, i));
    run.basic(i);
    EXPECT_EQ(date(i), 3U);
    send(4, j, k);
    EXPECT_FALSE(receive(4, k));
    send(5, i, j);
    EXPECT_TRUE(receive(5, j));  // c(j,3): no pattern <m5, m4>
    EXPECT_EQ(date(j), 3U);
    send(6, j, k);
    EXPECT_FALSE(receive(6, k));  // nothing sent since: only the clock moves
    run.basic(k);
    EXPECT_EQ(date(k), 4U);
    send(7, k, i);
    EXPECT_TRUE(receive(7, i));  // c(i,4): no Z-cycle of c(k,4)
    EXPECT_EQ(date(i), 4U);
    run.basic(j);
    run.basic(j);
    EXPECT_EQ(date(j), 5U);
    send(8, j, k);
    EXPECT_TRUE(receive(8, k));  // c(k,5)
    EXPECT_EQ(date(k), 5U);
    run.finish();
    EXPECT_EQ(date(i), 5U);
    EXPECT_EQ(date(k), 6U);
    const Zigzag graph(run.pattern);
    EXPECT_TRUE(graph.z_cycle_free());
    // c(i,5), c(j,5), c(k,5) belong together, as do c(j,2) and c(k,2).
    const GlobalCheckpoint five = global_of_date_sent(run.dates, 5);
    for (const Process p : {i, j, k}) EXPECT_EQ(run.dates[p][five[p]].date, 5U);
    EXPECT_TRUE(graph.consistent(five));
    const GlobalCheckpoint two = global_of_date_sent(run.dates, 2);
    EXPECT_EQ(run.dates[j][two[j]].date, 2U);
    EXPECT_EQ(run.dates[k][two[k]].date, 2U);
    EXPECT_TRUE(graph.consistent(two));
}

// In one state: BHMR forces only where FDAS does, FDAS only where Russell does. All three see the checkpoints
// that BHMR takes.
TEST(CausalityProtocol, InOneStateAWeakerOneForcesMore) {
    Random random(11);
    std::uint64_t count[3] = {};
    for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
        const test::PatternShape shape = long_shape(random);
        const Process n = shape.processes;
        const ProtocolKind kinds[] = {ProtocolKind::russell, ProtocolKind::fdas, ProtocolKind::bhmr};
        std::vector<std::unique_ptr<Protocol>> parts[3];
        for (int k = 0; k < 3; ++k)
            for (Process p = 0; p < n; ++p) parts[k].push_back(make_protocol(kinds[k], p, n));
        struct Transit {
            Process from, to;
            std::vector<std::uint8_t> piggyback[3];
        };
        std::deque<Transit> transit;
        for (std::uint32_t step = 0; step < shape.steps; ++step) {
            const Process p = random.below(n);
            if (random.chance(shape.checkpoints)) {
                for (auto& each : parts) each[p]->take_checkpoint();
            } else if (transit.empty() || random.chance(50)) {
                Transit& made = transit.emplace_back();
                made.from = p;
                made.to = (p + 1 + random.below(n - 1)) % n;
                for (int k = 0; k < 3; ++k) {
                    made.piggyback[k].resize(parts[k][p]->most_piggyback());
                    made.piggyback[k].resize(parts[k][p]->send(made.to, made.piggyback[k]));
                }
            } else {
                const std::size_t at = random.below(static_cast<std::uint32_t>(transit.size()));
                const Transit& message = transit[at];
                bool force[3];
                for (int k = 0; k < 3; ++k) {
                    force[k] = *parts[k][message.to]->receive(message.from, message.piggyback[k]);
                    count[k] += force[k] ? 1 : 0;
                }
                ASSERT_TRUE(!force[2] || force[1]);
                ASSERT_TRUE(!force[1] || force[0]);
                for (auto& each : parts) {
                    if (force[2]) each[message.to]->take_checkpoint();
                    each[message.to]->deliver();
                }
                transit.erase(transit.begin() + static_cast<std::ptrdiff_t>(at));
            }
        }
    }
    EXPECT_GT(count[0], count[1]);
    EXPECT_GT(count[1], count[2]);
    EXPECT_GT(count[2], 0U);
}

// Differences say the same as whole tables: same checkpoints, same vectors; and never more than the table's
// entries.
TEST(CausalityProtocol, DifferencesAreEnoughOnFifoChannels) {
    Random random(5);
    std::uint64_t full = 0, differences = 0;
    for (std::uint32_t i = 0; i < test::cases(800); ++i) {
        test::PatternShape shape = long_shape(random);
        shape.fifo = true;
        shape.steps += 60;
        for (const ProtocolKind kind : {ProtocolKind::fdas, ProtocolKind::bhmr, ProtocolKind::logging}) {
            std::vector<std::unique_ptr<Execution>> runs;
            runs.push_back(run_of(kind, shape.processes));
            runs.push_back(run_of(kind, shape.processes, Encoding::differences));
            drive(runs, random, shape);
            ASSERT_EQ(runs[0]->forced, runs[1]->forced);
            ASSERT_EQ(runs[0]->vectors, runs[1]->vectors);
            ASSERT_EQ(runs[0]->pattern.steps().size(), runs[1]->pattern.steps().size());
            for (Process p = 0; p < shape.processes; ++p)
                for (std::size_t x = 0; x < runs[0]->logs[p].size(); ++x) {
                    ASSERT_EQ(runs[0]->logs[p][x].log, runs[1]->logs[p][x].log);
                    ASSERT_EQ(runs[0]->logs[p][x].checkpoints, runs[1]->logs[p][x].checkpoints);
                }
            if (shape.processes == 5) {
                full += runs[0]->bytes;
                differences += runs[1]->bytes;
            }
        }
    }
    EXPECT_LT(differences, full);
}

TEST(CausalityProtocol, StateSurvivesStoreAndLoad) {
    Random random(6);
    for (const ProtocolKind kind : every_protocol)
        for (int i = 0; i < 40; ++i) {
            test::PatternShape shape = long_shape(random);
            shape.fifo = true;
            std::vector<std::unique_ptr<Execution>> runs;
            runs.push_back(run_of(kind, shape.processes));
            drive(runs, random, shape);
            Execution& run = *runs[0];
            for (Process p = 0; p < shape.processes; ++p) {
                Protocol& old = *run.parts[p];
                std::vector<std::uint8_t> state(old.stored_size()), again;
                old.store(state);
                const auto copy = make_protocol(kind, p, shape.processes);
                ASSERT_TRUE(copy->load(state)) << name(kind);
                again.resize(copy->stored_size());
                copy->store(again);
                ASSERT_EQ(state, again);
                // They answer alike from here on.
                std::vector<std::uint8_t> a(old.most_piggyback()), b(a.size());
                a.resize(old.send((p + 1) % shape.processes, a));
                b.resize(copy->send((p + 1) % shape.processes, b));
                ASSERT_EQ(a, b);
                state.push_back(0);
                ASSERT_FALSE(copy->load(state));
            }
        }
}

TEST(CausalityProtocol, DamagedPiggybacksAreRefused) {
    Random random(8);
    for (const ProtocolKind kind : every_protocol)
        for (const Encoding encoding : {Encoding::full, Encoding::differences})
            for (int i = 0; i < 300; ++i) {
                const auto from = make_protocol(kind, 0, 5, encoding),
                           to = make_protocol(kind, 1, 5, encoding);
                std::vector<std::uint8_t> piggyback(from->most_piggyback());
                piggyback.resize(from->send(1, piggyback));
                const std::size_t size = piggyback.size();
                piggyback.resize(random.below(static_cast<std::uint32_t>(2 * size + 3)));
                for (auto& byte : piggyback)
                    if (random.chance(30)) byte = static_cast<std::uint8_t>(random.number());
                const auto done = to->receive(0, piggyback);
                if (!done) {
                    EXPECT_EQ(done.error().code, ExitCode::damaged);
                }
                to->deliver();
                to->take_checkpoint();
            }
}

TEST(CausalityProtocol, NoAllocationForAMessage) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the sanitizer has its own operator new";
#endif
    Random random(9);
    for (const ProtocolKind kind : every_protocol)
        for (const Encoding encoding : {Encoding::full, Encoding::differences}) {
            constexpr Process n = 5;
            std::vector<std::unique_ptr<Protocol>> parts;
            for (Process p = 0; p < n; ++p) parts.push_back(make_protocol(kind, p, n, encoding));
            std::vector<std::uint8_t> buffer(parts[0]->most_piggyback());
            const std::size_t before = allocations;
            for (int i = 0; i < 20000; ++i) {
                const Process from = random.below(n), to = (from + 1 + random.below(n - 1)) % n;
                const std::size_t size = parts[from]->send(to, buffer);
                const auto force = parts[to]->receive(from, std::span(buffer).first(size));
                if (*force || random.chance(2)) parts[to]->take_checkpoint();
                parts[to]->deliver();
            }
            EXPECT_EQ(allocations, before) << name(kind);
        }
}

struct Sent {
    Process from = none, to = none;
    std::uint32_t sent_in = none, received_in = none;
    std::set<Checkpoint> known_at;  // checkpoints that the receipt causally precedes
};

// In the order of sending, from the pattern alone. Whom a message is for is in the run.
std::vector<Sent> messages_of(const Execution& run) {
    const Process n = run.pattern.processes();
    std::vector<Sent> messages(run.pattern.messages());
    std::vector<std::uint32_t> interval(n, 1);
    // What each process and each message knows: receipts.
    std::vector<std::set<std::uint32_t>> knows(n), carried(run.pattern.messages());
    for (const Pattern::Step& step : run.pattern.steps()) {
        const Process p = step.process();
        if (step.what() == Pattern::What::send) {
            messages[step.message].from = p;
            messages[step.message].to = run.destination[step.message];
            messages[step.message].sent_in = interval[p];
            carried[step.message] = knows[p];
        } else if (step.what() == Pattern::What::receive) {
            messages[step.message].received_in = interval[p];
            knows[p].insert(carried[step.message].begin(), carried[step.message].end());
            knows[p].insert(step.message);
        } else {
            for (const std::uint32_t m : knows[p]) messages[m].known_at.insert({p, interval[p]});
            ++interval[p];
        }
    }
    for (Process p = 0; p < n; ++p)
        for (const std::uint32_t m : knows[p]) messages[m].known_at.insert({p, interval[p]});
    return messages;
}

// Sender-based logging: at each recovery line that failures can lead to, the logs hold exactly what is in
// transit over it.
TEST(CausalityProtocol, NoLoggedMessageIsMissingOrNeedless) {
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1200); ++i) {
            test::PatternShape shape = long_shape(random);
            shape.fifo = true;
            std::vector<std::unique_ptr<Execution>> runs;
            runs.push_back(run_of(ProtocolKind::logging, shape.processes));
            drive(runs, random, shape);
            Execution& run = *runs[0];
            const Zigzag graph(run.pattern);
            const std::vector<Sent> messages = messages_of(run);
            // Those who live have taken a checkpoint: the final one. Those who failed have lost it.
            for (std::uint32_t failed = 0; failed < 1U << shape.processes; failed += 1 + random.below(3)) {
                std::vector<std::vector<LoggedCheckpoint>> stored = run.logs;
                std::vector<Process> lost;
                for (Process p = 0; p < shape.processes; ++p)
                    if ((failed >> p & 1U) != 0) {
                        lost.push_back(p);
                        stored[p].pop_back();
                    }
                const GlobalCheckpoint line = concurrent_line(stored);
                ASSERT_EQ(line, graph.recovery_line(lost).line) << "case " << i;
                for (Process from = 0; from < shape.processes; ++from)
                    for (Process to = 0; to < shape.processes; ++to) {
                        if (from == to) continue;
                        std::vector<LoggedMessage> expected;
                        std::uint32_t number = 0;
                        for (const Sent& m : messages) {
                            if (m.from != from || m.to != to) continue;
                            ++number;
                            if (m.sent_in <= line[from] && m.received_in > line[to])
                                expected.push_back({to, number});
                        }
                        ASSERT_EQ(channel_state(stored, line, from, to), expected) << "case " << i;
                    }
                // After reclaiming, the same can be recovered again.
                auto reclaimed = stored;
                reclaim(reclaimed, line);
                const GlobalCheckpoint again = concurrent_line(reclaimed);
                for (Process p = 0; p < shape.processes; ++p) ASSERT_EQ(again[p], 0U);
                for (Process from = 0; from < shape.processes; ++from)
                    for (Process to = 0; to < shape.processes; ++to)
                        if (from != to) {
                            ASSERT_EQ(channel_state(reclaimed, GlobalCheckpoint(shape.processes), from, to),
                                      channel_state(stored, line, from, to));
                        }
            }
            // And what is left out is what the checkpoint's causal past tells to be received, no more, no
            // less.
            for (Process p = 0; p < shape.processes; ++p)
                for (std::uint32_t x = 1; x < run.logs[p].size(); ++x) {
                    std::vector<LoggedMessage> expected;
                    std::vector<std::uint32_t> number(shape.processes);
                    for (const Sent& m : messages) {
                        if (m.from != p || m.to == none) continue;
                        ++number[m.to];
                        if (m.sent_in == x && !m.known_at.contains({p, x}))
                            expected.push_back({m.to, number[m.to]});
                    }
                    ASSERT_EQ(run.logs[p][x].log, expected) << "case " << i << ", process " << p << ", " << x;
                }
        }
    }
}

}  // namespace
