// Lint: races against all executions of random programs that MPI allows, and each kind of finding by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "causality/lint/loaded.h"
#include "causality/trace_json.h"
#include "test/causality/random.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;

// A program of a process: what it does, one after the other. A receive that waits is a post and a wait.
struct LintOp {
    enum class What { send, post, wait } what;
    Process peer = none;      // none: any
    std::int32_t tag = -1;    // -1: any
    std::size_t receive = 0;  // post, wait: which of all receives
    bool blocking = false;
};
struct LintMessage {
    Process from, to;
    std::int32_t tag;
    std::size_t at;  // the operation of its sender
};
using LintProgram = std::vector<std::vector<LintOp>>;

// MPI's rules and nothing else: a message that is sent and a receive that is posted may be matched at any
// time, if no earlier message of that sender fits the receive, and no earlier receive fits the message.
class LintMachine {
  public:
    explicit LintMachine(const LintProgram& program) : program_(program), counters(program.size(), 0) {
        for (Process p = 0; p < program.size(); ++p)
            for (std::size_t i = 0; i < program[p].size(); ++i) {
                const LintOp& op = program[p][i];
                if (op.what == LintOp::What::send) messages.push_back({p, op.peer, op.tag, i});
                if (op.what == LintOp::What::post) {
                    receives.resize(std::max(receives.size(), op.receive + 1));
                    receives[op.receive] = {p, i};
                }
            }
        matched.assign(receives.size(), none);
        taken.assign(messages.size(), false);
    }
    [[nodiscard]] bool can_step(Process p) const {
        if (counters[p] == program_[p].size()) return false;
        const LintOp& op = program_[p][counters[p]];
        return op.what != LintOp::What::wait || matched[op.receive] != none;
    }
    [[nodiscard]] bool sent(std::uint32_t m) const { return counters[messages[m].from] > messages[m].at; }
    [[nodiscard]] bool posted(std::size_t r) const {
        return counters[receives[r].first] > receives[r].second;
    }
    [[nodiscard]] bool fits(std::size_t r, std::uint32_t m) const {
        const LintOp& op = program_[receives[r].first][receives[r].second];
        return messages[m].to == receives[r].first && (op.peer == none || op.peer == messages[m].from) &&
               (op.tag == -1 || op.tag == messages[m].tag);
    }
    [[nodiscard]] bool can_match(std::size_t r, std::uint32_t m) const {
        if (matched[r] != none || taken[m] || !posted(r) || !sent(m) || !fits(r, m)) return false;
        for (std::uint32_t k = 0; k < messages.size(); ++k)
            if (messages[k].from == messages[m].from && messages[k].at < messages[m].at && !taken[k] &&
                fits(r, k))
                return false;
        for (std::size_t k = 0; k < receives.size(); ++k)
            if (receives[k].first == receives[r].first && receives[k].second < receives[r].second &&
                posted(k) && matched[k] == none && fits(k, m))
                return false;
        return true;
    }
    void match(std::size_t r, std::uint32_t m) {
        matched[r] = m;
        taken[m] = true;
    }

    const LintProgram& program_;
    std::vector<LintMessage> messages;
    std::vector<std::pair<Process, std::size_t>> receives;  // process and operation that posts it
    std::vector<std::size_t> counters;
    std::vector<std::uint32_t> matched;
    std::vector<bool> taken;
};

LintProgram random_lint_program(Random& random) {
    const Process n = 2 + random.below(3);
    LintProgram program(n);
    std::size_t receives = 0;
    for (Process p = 0; p < n; ++p) {
        std::vector<std::size_t> open;
        const std::uint32_t length = 1 + random.below(n == 4 ? 5 : 7);
        for (std::uint32_t i = 0; i < length; ++i) {
            if (!open.empty() && random.chance(30)) {
                const std::uint32_t which = random.below(static_cast<std::uint32_t>(open.size()));
                program[p].push_back({.what = LintOp::What::wait, .receive = open[which]});
                open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
                continue;
            }
            Process peer = random.below(n - 1);
            if (peer >= p) ++peer;
            const auto tag = static_cast<std::int32_t>(random.below(2));
            if (random.chance(p == 0 ? 25 : 60)) {
                program[p].push_back(
                    {.what = LintOp::What::send, .peer = random.chance(60) && p != 0 ? 0 : peer, .tag = tag});
                continue;
            }
            const bool blocking = random.chance(50);
            program[p].push_back({.what = LintOp::What::post,
                                  .peer = random.chance(65) ? none : peer,
                                  .tag = random.chance(40) ? -1 : tag,
                                  .receive = receives,
                                  .blocking = blocking});
            if (blocking)
                program[p].push_back({.what = LintOp::What::wait, .receive = receives, .blocking = true});
            else
                open.push_back(receives);
            ++receives;
        }
        for (const std::size_t each : open)
            program[p].push_back({.what = LintOp::What::wait, .receive = each});
    }
    return program;
}

// One execution, with its trace: the position of each receive's completion, by receive.
struct LintRun {
    MemoryTrace trace;
    std::vector<std::uint32_t> matched;
    std::map<EventId, std::size_t> completions;
    std::map<EventId, std::uint32_t> sends;
};

LintRun run_lint_program(Random& random, const LintProgram& program) {
    LintMachine machine(program);
    const auto n = static_cast<Process>(program.size());
    LintRun run{.trace = MemoryTrace(n), .matched = {}, .completions = {}, .sends = {}};
    for (Process p = 0; p < n; ++p) run.trace.set_ended(p, false);
    for (;;) {
        std::vector<Process> steps;
        std::vector<std::pair<std::size_t, std::uint32_t>> matches;
        for (Process p = 0; p < n; ++p)
            if (machine.can_step(p)) steps.push_back(p);
        for (std::size_t r = 0; r < machine.receives.size(); ++r)
            for (std::uint32_t m = 0; m < machine.messages.size(); ++m)
                if (machine.can_match(r, m)) matches.emplace_back(r, m);
        if (steps.empty() && matches.empty()) break;
        const std::uint32_t which = random.below(static_cast<std::uint32_t>(steps.size() + matches.size()));
        if (which >= steps.size()) {
            machine.match(matches[which - steps.size()].first, matches[which - steps.size()].second);
            continue;
        }
        const Process p = steps[which];
        const LintOp& op = program[p][machine.counters[p]];
        const EventId id{p, static_cast<Position>(run.trace.events(p).size())};
        const auto request = static_cast<std::uint32_t>(op.receive + 1);
        unsigned flags = 0;
        const LintOp* asks = &op;
        if (op.what == LintOp::What::wait) asks = &program[p][machine.receives[op.receive].second];
        if (op.what != LintOp::What::send) {
            if (asks->peer == none) flags |= Flag::any_source;
            if (asks->tag == -1) flags |= Flag::any_tag;
        }
        if (op.what == LintOp::What::send) {
            for (std::uint32_t m = 0; m < machine.messages.size(); ++m)
                if (machine.messages[m].from == p && machine.messages[m].at == machine.counters[p])
                    run.sends[id] = m;
            run.trace.append(p, {.kind = Kind::send, .peer = op.peer, .tag = op.tag});
        } else if (op.what == LintOp::What::post && !op.blocking) {
            flags |= Flag::asks;
            run.trace.append(p, {.kind = Kind::post,
                                 .flags = static_cast<std::uint8_t>(flags),
                                 .peer = op.peer,
                                 .tag = std::max(op.tag, 0),
                                 .request = request});
        } else if (op.what == LintOp::What::wait) {
            const LintMessage& message = machine.messages[machine.matched[op.receive]];
            run.completions[id] = op.receive;
            run.trace.append(p, {.kind = Kind::receive,
                                 .flags = static_cast<std::uint8_t>(flags),
                                 .peer = message.from,
                                 .tag = message.tag,
                                 .request = op.blocking ? 0 : request});
        }
        ++machine.counters[p];
    }
    run.matched = machine.matched;
    return run;
}

// All messages that receive r can get when each other receive gets the one that it got.
class LintSearch {
  public:
    LintSearch(const LintMachine& start, const LintRun& run, std::size_t receive)
        : run_(run), receive_(receive) {
        visit(start);
    }
    std::set<std::uint32_t> found;

  private:
    void visit(const LintMachine& state) {
        if (!seen_.insert({state.counters, state.taken}).second) return;
        for (std::uint32_t m = 0; m < state.messages.size(); ++m)
            if (state.can_match(receive_, m)) found.insert(m);
        for (Process p = 0; p < state.counters.size(); ++p) {
            if (!state.can_step(p)) continue;
            LintMachine next = state;
            ++next.counters[p];
            visit(next);
        }
        for (std::size_t r = 0; r < state.receives.size(); ++r) {
            if (r == receive_ || run_.matched[r] == none || !state.can_match(r, run_.matched[r])) continue;
            LintMachine next = state;
            next.match(r, run_.matched[r]);
            visit(next);
        }
    }
    const LintRun& run_;
    std::size_t receive_;
    std::set<std::pair<std::vector<std::size_t>, std::vector<bool>>> seen_;
};

std::string text_of_run(const Computation& c, const LintRun& run) {
    std::string text;
    for (Index e = 0; e < c.size(); ++e) {
        const auto send = run.sends.find(c.id(e));
        const Event& event = c.event(e);
        text += c.text(e) + (send != run.sends.end() ? fmt::format(": message {}", send->second) : "") +
                (event.has(Flag::any_source) ? ", any source" : "") +
                (event.has(Flag::any_tag) ? ", any tag" : "") + "\n";
    }
    return text;
}

TEST(CausalityLint, RacesAreWhatMpiAllows) {
    std::size_t races = 0, none_possible = 0;
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(1500); ++i) {
            const LintProgram program = random_lint_program(random);
            LintRun run = run_lint_program(random, program);
            // A receive that has its message but was never completed doesn't say in the trace which it has.
            std::size_t known = 0;
            for (const std::uint32_t each : run.matched) known += each != none ? 1U : 0U;
            if (known != run.completions.size()) continue;
            const auto c = Computation::load(run.trace);
            ASSERT_TRUE(c) << c.error().what;
            std::map<std::size_t, std::set<std::uint32_t>> found;
            for (const Race& race : races_of(*c, true)) {
                found[run.completions.at(c->id(race.receive))].insert(run.sends.at(c->id(race.other)));
                EXPECT_EQ(run.sends.at(c->id(race.got)),
                          run.matched[run.completions.at(c->id(race.receive))]);
            }
            const LintMachine start(program);
            for (const auto& [id, receive] : run.completions) {
                if (!c->event(id).has(Flag::any_source)) continue;
                LintSearch search(start, run, receive);
                ASSERT_TRUE(search.found.erase(run.matched[receive]) == 1)
                    << "seed " << seed << " case " << i;
                ASSERT_EQ(found[receive], search.found)
                    << "seed " << seed << " case " << i << ": " << c->text(c->index(id)) << "\n"
                    << text_of_run(*c, run);
                races += search.found.size();
                if (search.found.empty()) ++none_possible;
            }
        }
    }
    if (test::cases(1) == 1) {
        EXPECT_GT(races, 100U);
        EXPECT_GT(none_possible, 100U);
    }
}

Lint lint_of(const std::string& lines) {
    auto trace = parse_trace_lines("{\"cairn-trace\":1,\"processes\":3}\n" + lines, "t");
    EXPECT_TRUE(trace) << trace.error().what;
    auto found = lint(**trace);
    EXPECT_TRUE(found) << found.error().what;
    return std::move(*found);
}

std::string texts(const std::string& lines) {
    std::string text;
    const Lint found = lint_of(lines);
    for (const Finding& each : found.findings)
        text += fmt::format("{}: {} x{}\n", name(each.fault), each.text, each.count);
    return text;
}

TEST(CausalityLint, NamesTheCircleOfADeadlock) {
    // Rank 0 may get a message of anybody; 1 waits for 2, which waits for 0 by a request.
    EXPECT_EQ(texts(R"({"killed":0}
{"killed":1}
{"killed":2}
{"stands":0,"e":"receive","any_source":true,"call":"MPI_Recv","at":"main@a.c:1"}
{"stands":1,"e":"receive","from":2,"tag":4,"call":"MPI_Recv","at":"a.c:2"}
{"p":2,"e":"post","asks":true,"from":0,"request":1}
{"stands":2,"e":"complete","requests":[1],"call":"MPI_Wait","at":"a.c:3"}
)"),
              "deadlock: a circle of 3: rank 0, MPI_Recv at a.c:1 (main) waits for any of ranks 1, 2; rank "
              "1, MPI_Recv at "
              "a.c:2 waits for rank 2 (tag 4); rank 2, MPI_Wait at a.c:3 waits for rank 0 x1\n");
    // One that still computes may send.
    EXPECT_EQ(texts(R"({"killed":0}
{"killed":1}
{"killed":2}
{"stands":0,"e":"receive","any_source":true}
{"stands":1,"e":"receive","from":0}
)"),
              "");
    // The message is on its way.
    EXPECT_EQ(texts(R"({"killed":0}
{"killed":1}
{"p":1,"e":"send","to":0,"tag":3}
{"stands":0,"e":"receive","from":1,"tag":3}
{"stands":1,"e":"receive","from":0}
)"),
              "");
    // Any of two requests is enough, and one of them has its message.
    EXPECT_EQ(texts(R"({"killed":0}
{"killed":1}
{"p":0,"e":"post","asks":true,"from":1,"request":1}
{"p":0,"e":"post","asks":true,"from":1,"tag":9,"request":2}
{"p":1,"e":"send","to":0,"tag":9}
{"stands":0,"e":"complete","requests":[1,2],"any":true}
{"stands":1,"e":"receive","from":0}
)"),
              "");
    EXPECT_EQ(texts(R"({"killed":0}
{"p":1,"e":"internal"}
{"p":2,"e":"internal"}
{"stands":0,"e":"collective","shape":"all","call":"MPI_Barrier","at":"a.c:7"}
)"),
              "deadlock: rank 0, MPI_Barrier at a.c:7 waits for ranks 1, 2, and rank 1 has ended "
              "x1\ncollective: operation 1 "
              "of all ranks: rank 0, MPI_Barrier at a.c:7, but rank 1 ends without it x1\n");
}

TEST(CausalityLint, FindsWhatIsLeftOver) {
    EXPECT_EQ(texts(R"({"p":0,"e":"send","to":1,"bytes":16,"type":"MPI_INT"}
{"p":0,"e":"send","to":1,"bytes":4,"type":"MPI_INT","request":5}
{"p":0,"e":"send","to":2,"tag":2,"bytes":4,"type":"MPI_INT"}
{"p":1,"e":"receive","from":0,"bytes":8,"type":"MPI_INT"}
{"p":1,"e":"receive","from":0,"bytes":8,"type":"MPI_FLOAT"}
{"leak":1,"what":"request","count":2,"at":"b.c:9","call":"MPI_Send_init"}
)"),
              "truncated: rank 1, event 0 has room for 8 bytes of MPI_INT, and gets 16 bytes of MPI_INT from "
              "rank 0, event 0 "
              "x1\ntype: rank 1, event 1 receives as MPI_FLOAT what rank 0, event 1 sends as MPI_INT "
              "x1\nunreceived: rank 0, "
              "event 2: rank 2 ends without receiving its message, tag 2 x1\nrequest: rank 0, event 1: its "
              "request is never "
              "completed and never freed x1\nleak: rank 1, MPI_Send_init at b.c:9: the persistent request "
              "that it makes is "
              "never freed x2\n");
    // Types that can't be told to differ, and nothing.
    EXPECT_EQ(texts(R"({"p":0,"e":"send","to":1,"bytes":12,"type":"{MPI_INT MPI_DOUBLE}"}
{"p":0,"e":"send","to":1,"bytes":0,"type":"MPI_INT"}
{"p":0,"e":"send","to":1,"bytes":8,"type":"MPI_PACKED"}
{"p":1,"e":"receive","from":0,"bytes":12,"type":"{MPI_INT MPI_DOUBLE MPI_INT}"}
{"p":1,"e":"receive","from":0,"bytes":0,"type":"MPI_CHAR"}
{"p":1,"e":"receive","from":0,"bytes":8,"type":"MPI_INT"}
)"),
              "");
}

TEST(CausalityLint, ComparesCollectives) {
    EXPECT_EQ(texts(R"({"communicator":5,"members":[0,2]}
{"p":0,"e":"collective","shape":"all","communicator":5,"call":"MPI_Barrier"}
{"p":2,"e":"collective","shape":"all","communicator":5,"call":"MPI_Barrier"}
{"p":0,"e":"collective","shape":"from_root","root":0,"communicator":5,"call":"MPI_Bcast"}
{"p":2,"e":"collective","shape":"from_root","root":2,"communicator":5,"call":"MPI_Bcast"}
{"p":2,"e":"collective","shape":"all","communicator":5,"call":"MPI_Barrier"}
)"),
              "collective: operation 2 on communicator 5: rank 0, event 1, MPI_Bcast, root 0, but rank 2, "
              "event 1, MPI_Bcast, "
              "root 2 x1\n");
    // In the order of posting, whatever the order of completion.
    EXPECT_EQ(texts(R"({"p":0,"e":"post","for_collective":true,"request":1,"call":"MPI_Ibarrier"}
{"p":0,"e":"post","for_collective":true,"request":2,"call":"MPI_Ibcast"}
{"p":0,"e":"collective","shape":"from_root","root":0,"request":2,"call":"MPI_Wait"}
{"p":0,"e":"collective","shape":"all","request":1,"call":"MPI_Wait"}
{"p":1,"e":"post","for_collective":true,"request":1,"call":"MPI_Ibarrier"}
{"p":1,"e":"collective","shape":"all","request":1,"call":"MPI_Wait"}
{"p":1,"e":"post","for_collective":true,"request":1,"call":"MPI_Ibcast"}
{"p":1,"e":"collective","shape":"from_root","root":0,"request":1,"call":"MPI_Wait"}
{"p":2,"e":"post","for_collective":true,"request":1,"call":"MPI_Ibarrier"}
{"p":2,"e":"collective","shape":"all","request":1,"call":"MPI_Wait"}
{"p":2,"e":"post","for_collective":true,"request":1,"call":"MPI_Ibcast"}
{"p":2,"e":"collective","shape":"from_root","root":0,"request":1,"call":"MPI_Wait"}
)"),
              "");
}

TEST(CausalityLint, SaysWhatATraceDoesNotTell) {
    const Lint old = lint_of(R"({"p":0,"e":"receive","from":1,"nondeterministic":true}
{"p":1,"e":"send","to":0}
{"p":2,"e":"send","to":0}
{"p":0,"e":"receive","from":2}
)");
    ASSERT_EQ(old.findings.size(), 1U);
    EXPECT_EQ(old.findings[0].fault, Fault::race);
    ASSERT_EQ(old.unknown.size(), 1U);
    EXPECT_TRUE(old.unknown[0].starts_with("this trace doesn't say what receives asked for"));
    const Lint killed = lint_of("{\"killed\":1}\n{\"p\":0,\"e\":\"internal\"}\n");
    ASSERT_EQ(killed.unknown.size(), 2U);
    EXPECT_TRUE(
        killed.unknown[0].starts_with("rank 1 didn't come to an end, and what it waited for isn't known"));
}

}  // namespace
