// The trace's two forms, and what is refused.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <span>
#include <sstream>

#include "causality/computation.h"
#include "causality/cuts.h"
#include "causality/lines_file.h"
#include "causality/trace_reader.h"
#include "test/causality/trace_text.h"
#include "test/unit/folder.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using namespace cairn::test::traces;
using cairn::test::Folder;
using cairn::test::Random;

std::string damage(TraceSource& source) {
    const auto done = check_trace(source);
    return done ? "no error" : done.error().what;
}

std::string problem(const std::string& lines) {
    auto trace = parse_trace_lines(lines, "t");
    if (!trace) return trace.error().what;
    const std::string why = damage(**trace);
    (*trace)->rewind();
    const auto loaded = Computation::load(**trace);
    EXPECT_EQ(loaded.has_value(), why == "no error");
    if (!loaded) {
        EXPECT_EQ(loaded.error().code, ExitCode::damaged);
    }
    return why;
}

std::string mixed(const std::string& text) {
    std::istringstream lines(text);
    std::string others;
    std::map<std::string, std::deque<std::string>> of;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("{\"p\":"))
            of[line.substr(0, line.find(','))].push_back(line + "\n");
        else
            others += line + "\n";
    }
    for (bool more = true; more;) {
        more = false;
        for (auto& [process, mine] : of) {
            if (mine.empty()) continue;
            others += mine.front();
            mine.pop_front();
            more = true;
        }
    }
    return others;
}

TEST(CausalityTrace, BothFormsGiveBackWhatWasWritten) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const Folder folder;
        MemoryTrace trace = random_trace(seed);
        const std::string expected = text_of(trace);
        for (const std::size_t block : {std::size_t{1}, std::size_t{50}, TraceWriter::usual_block}) {
            const std::string path = folder / ("one" + std::to_string(block));
            auto writer = TraceWriter::create(path, trace.processes(), block);
            ASSERT_TRUE(writer);
            write(trace, *writer);
            ASSERT_TRUE(writer->close());
            const std::string paths[] = {path};
            auto reader = TraceReader::open(paths);
            ASSERT_TRUE(reader) << reader.error().what;
            EXPECT_TRUE((*reader)->notes().empty());
            EXPECT_EQ(text_of(**reader), expected);
            (*reader)->rewind();
            EXPECT_EQ(text_of(**reader), expected);
        }
        TraceLine header;
        header.processes = trace.processes();
        std::string whole = trace_line(header);
        whole.append("\n").append(expected);
        auto lines = parse_trace_lines(whole, "t");
        ASSERT_TRUE(lines) << lines.error().what;
        EXPECT_EQ(text_of(**lines), expected);
        // As a stream from a file, in the order of processes and with their lines mixed.
        write_file(folder / "lines", whole);
        auto streamed = LinesFile::open(folder / "lines");
        ASSERT_TRUE(streamed) << streamed.error().what;
        EXPECT_EQ(text_of(**streamed), expected);
        write_file(folder / "mixed", mixed(whole));
        streamed = LinesFile::open(folder / "mixed");
        ASSERT_TRUE(streamed) << streamed.error().what;
        EXPECT_EQ(text_of(**streamed), expected);
    }
}

TEST(CausalityTrace, AStreamOfLinesNamesTheLineThatIsWrong) {
    const Folder folder;
    const std::string path = folder / "lines";
    const auto problem_of = [&](const std::string& text) {
        write_file(path, text);
        const auto trace = LinesFile::open(path);
        return trace ? damage(**trace) : trace.error().what;
    };
    const std::string header = "{\"cairn-trace\": 1, \"processes\": 2}\n\n";
    EXPECT_EQ(problem_of(""), path + ": an empty trace");
    EXPECT_NE(problem_of("{\"p\":0,\"e\":\"internal\"}\n").find(": line 1: the first line is"),
              std::string::npos);
    EXPECT_NE(
        problem_of(header + "{\"p\":2,\"e\":\"internal\"}\n").find(": line 3: the trace has no such process"),
        std::string::npos);
    EXPECT_NE(
        problem_of(header + "{\"p\":1,\"e\":\"internal\"}\n{\"p\":1,\"e\":\"nothing\"}\n").find(": line 4: "),
        std::string::npos);
    EXPECT_NE(problem_of(header + "{\"p\":1,\"e\":\"internal\",\"p\":0}\n").find(": line 3: "),
              std::string::npos);
    EXPECT_EQ(problem_of(header + "{\"p\":1,\"e\":\"internal\"}"), "no error");  // without its end
}

TEST(CausalityTrace, EachProcessMayHaveAFileOfItsOwn) {
    const Folder folder;
    MemoryTrace trace = random_trace(5);
    const std::string expected = text_of(trace);
    std::vector<std::string> paths;
    for (Process p = 0; p < trace.processes(); ++p) {
        paths.insert(paths.begin(), folder / std::to_string(p));
        auto writer = TraceWriter::create(paths.front(), trace.processes(), 40);
        ASSERT_TRUE(writer);
        write(trace, *writer, p);
        ASSERT_TRUE(writer->close());
    }
    auto reader = TraceReader::open(paths);
    ASSERT_TRUE(reader) << reader.error().what;
    EXPECT_EQ(text_of(**reader), expected);
    paths.push_back(paths[0]);
    reader = TraceReader::open(paths);
    ASSERT_FALSE(reader);
    EXPECT_NE(reader.error().what.find("is also in"), std::string::npos) << reader.error().what;
}

TEST(CausalityTrace, ExtremeNumbersSurvive) {
    MemoryTrace trace(most_processes);
    const Event extreme{.kind = Kind::send,
                        .flags = Flag::all,
                        .peer = most_processes - 1,
                        .communicator = none - 1,
                        .tag = INT32_MIN,
                        .request = none,
                        .place = 0,
                        .message = UINT64_MAX,
                        .time = INT64_MIN};
    Event other = extreme;
    other.time = INT64_MAX;
    other.took = most_took;
    EXPECT_EQ(other.call_end(), INT64_MAX);
    other.kind = Kind::receive;
    EXPECT_EQ(other.call_begin(), 0);
    other.kind = Kind::send;
    other.tag = INT32_MAX;
    other.message = 1;
    const Folder folder;
    const std::string paths[] = {folder / "t"};
    auto writer = TraceWriter::create(paths[0], 5);
    ASSERT_TRUE(writer);
    for (const Event& each : {extreme, other, extreme}) ASSERT_TRUE(writer->append(4, each));
    ASSERT_TRUE(writer->close());
    auto reader = TraceReader::open(paths);
    ASSERT_TRUE(reader);
    Event event;
    for (const Event& each : {extreme, other, extreme}) {
        ASSERT_TRUE((*reader)->next(4, event).value());
        EXPECT_EQ(event, each);
    }
}

// A crash at any byte costs the last block, and nothing that was written before it.
// However often it was closed, or cut by a crash, and opened again: the same events.
// The events that aren't in a block yet, and where the process stands, are in the file when it is killed.
TEST(CausalityTrace, WrongVersionsAndStrangersAreRefusedByName) {
    const Folder folder;
    const std::string path = folder / "t";
    const std::string paths[] = {path};
    auto writer = TraceWriter::create(path, 2);
    ASSERT_TRUE(writer);
    EXPECT_FALSE(writer->append(2, {}));
    ASSERT_TRUE(writer->close());
    EXPECT_FALSE(TraceWriter::create(path, 2));
    std::string bytes = read_file(path);
    bytes[8] = 9;
    write_file(path, bytes);
    auto reader = TraceReader::open(paths);
    ASSERT_FALSE(reader);
    EXPECT_NE(reader.error().what.find("version 9"), std::string::npos) << reader.error().what;
    write_file(path, std::string(1000, 'x'));
    EXPECT_FALSE(TraceReader::open(paths));
    write_file(path, "");
    EXPECT_FALSE(TraceReader::open(paths));
    EXPECT_EQ(problem("{\"cairn-trace\": 2, \"processes\": 1}"),
              "t: line 1: a trace of version 2; this cairn reads version 1");
}

constexpr const char* two = "{\"cairn-trace\": 1, \"processes\": 2}\n";

TEST(CausalityTrace, LinesThatAreWrongAreNamed) {
    const std::pair<const char*, const char*> wrong[] = {
        {"{\"p\": 0, \"e\": \"sned\"}", "t: line 2: \"e\" is no kind of event"},
        {"{\"p\": 0, \"e\": \"send\", \"too\": 1}", "a member that doesn't belong there: \"too\""},
        {"{\"p\": 7, \"e\": \"internal\"}", "t: line 2: the trace has no such process"},
        {"{\"e\": \"internal\"}", "\"p\" says whose event it is, and is missing"},
        {"{\"p\": 0, \"e\": \"send\", \"to\": -1}", "\"to\" is too small"},
        {"{\"p\": 0, \"e\": \"send\", \"to\": 1.5}", "\"to\" is not a whole number"},
        {"{\"p\": 0, \"e\": \"send\", \"to\": 1, \"tag\": 2147483648}", "\"tag\" is too large"},
        {"{\"p\": 0, \"e\": \"internal\", \"at\": \"x\"}", "\"at\" is not FILE:LINE"},
        {"[]", "this is no JSON object"},
        {"{", "this is no JSON object"},
        {"{\"communicator\": 3, \"members\": [1, 1]}", "names a process twice"},
        {"{\"communicator\": 3, \"members\": [2]}", "a member is no process of the trace"},
        {"{\"cairn-trace\": 1, \"processes\": 2}", "t: line 2: a second header"},
        {"{\"p\": 0, \"e\": \"send\"}",
         "process 0, event 0 (send to nobody (its `to` is missing)): its peer is no process of the trace"},
        {"{\"p\": 0, \"e\": \"collective\"}", "have a shape"},
        {"{\"p\": 0, \"e\": \"post\"}", "it opens or closes a request and names none"},
        {"{\"p\": 0, \"e\": \"complete\", \"request\": 4}", "the request it closes is not open"},
        {"{\"p\": 0, \"e\": \"collective\", \"shape\": \"all\", \"communicator\": 8}",
         "its communicator is not defined"},
        {"{\"p\": 0, \"e\": \"internal\", \"joined\": true}", "there is none"},
    };
    for (const auto& [line, why] : wrong)
        EXPECT_NE(problem(std::string(two) + line).find(why), std::string::npos)
            << line << ": " << problem(std::string(two) + line);
    EXPECT_EQ(problem("{\"p\": 0}"), "t: line 1: \"e\" is no kind of event");
    EXPECT_EQ(problem(""), "t: an empty trace");
    EXPECT_EQ(
        problem(std::string(two) + "\n  \r\n" + "{\"p\": 1, \"e\": \"internal\", \"at\": \"f@a/b.c:12\"}"),
        "no error");
}

TEST(CausalityTrace, ContradictionsAreRefusedWithTheirEvent) {
    const auto at = [](const std::string& lines, const char* why) {
        EXPECT_NE(problem(two + lines).find(why), std::string::npos) << problem(two + lines);
    };
    at(R"({"p":1,"e":"receive","from":0,"at":"a.c:3"})",
       "process 1, event 0 (receive from 0; a.c:3): process 0 never sends this message");
    // Received before it was sent.
    at("{\"p\":0,\"e\":\"receive\",\"from\":1}\n{\"p\":0,\"e\":\"send\",\"to\":1}\n"
       "{\"p\":1,\"e\":\"receive\",\"from\":0}\n{\"p\":1,\"e\":\"send\",\"to\":0}",
       "a circle of events that wait for each other: process 0, event 0 (receive from 1), waits for process "
       "1, event 0");
    at("{\"p\":0,\"e\":\"receive\",\"from\":0}\n{\"p\":0,\"e\":\"send\",\"to\":0}",
       "process 0, event 0 (receive from 0): the message is received before the process itself sends it");
    // The same message twice.
    at("{\"p\":0,\"e\":\"send\",\"to\":1,\"message\":5}\n{\"p\":1,\"e\":\"receive\",\"from\":0,\"message\":5}"
       "\n"
       "{\"p\":1,\"e\":\"receive\",\"from\":0,\"message\":5}",
       "process 1, event 1 (receive from 0, message 5)");
    at("{\"p\":0,\"e\":\"send\",\"to\":1,\"message\":5}\n{\"p\":0,\"e\":\"send\",\"to\":1,\"message\":5}",
       "process 0, event 1 (send to 1, message 5): it gives a message the number of another");
    // A message with another tag, or for another process.
    at("{\"p\":0,\"e\":\"send\",\"to\":1,\"message\":5,\"tag\":1}\n{\"p\":1,\"e\":\"receive\",\"from\":0,"
       "\"message\":5}",
       "the message is another");
    // Collectives that don't fit.
    at("{\"p\":0,\"e\":\"collective\",\"shape\":\"all\"}\n{\"p\":1,\"e\":\"collective\",\"shape\":\"to_"
       "root\",\"root\":0}",
       "it is operation 1 of its communicator, as process 0, event 0");
    at(R"({"p":1,"e":"collective","shape":"from_root","root":0})",
       "process 0, the root, has no part in this operation");
    at("{\"p\":0,\"e\":\"collective\",\"shape\":\"all\"}\n{\"p\":0,\"e\":\"send\",\"to\":1}\n"
       "{\"p\":1,\"e\":\"receive\",\"from\":0}\n{\"p\":1,\"e\":\"collective\",\"shape\":\"all\"}",
       "a circle of events");
}

// What a crash took of one process is no contradiction: the others are cut where they depend on it.
TEST(CausalityTrace, EventsThatDependOnLostOnesAreLeftOut) {
    auto trace =
        parse_trace_lines(std::string(two) +
                              "{\"killed\":0}\n{\"p\":0,\"e\":\"internal\"}\n"
                              "{\"p\":1,\"e\":\"checkpoint\"}\n{\"p\":1,\"e\":\"receive\",\"from\":0}\n"
                              "{\"p\":1,\"e\":\"checkpoint\"}\n",
                          "t");
    ASSERT_TRUE(trace);
    const auto loaded = Computation::load(**trace);
    ASSERT_TRUE(loaded) << loaded.error().what;
    EXPECT_EQ(loaded->size(0), 1U);
    EXPECT_EQ(loaded->size(1), 1U);
    ASSERT_EQ(loaded->notes().size(), 1U);
    EXPECT_NE(loaded->notes()[0].find("process 1, event 1"), std::string::npos);
}

// The k-th send of a channel is its k-th receive by posting, whichever completes first.
TEST(CausalityTrace, PlacesSayWhatIsKnown) {
    EXPECT_EQ(describe(Place{"solver.c", 88, "relax", "MPI_Recv"}), "MPI_Recv at solver.c:88 (relax)");
    EXPECT_EQ(describe(Place{"solver.so+0x12", 0, "", "MPI_Recv"}), "MPI_Recv at solver.so+0x12");
    EXPECT_EQ(describe(Place{"", 0, "", "MPI_Recv"}), "MPI_Recv");
}

TEST(CausalityTrace, ReceivesAreCountedInTheOrderOfPosting) {
    auto trace = parse_trace_lines(std::string(two) +
                                       R"({"p":0,"e":"send","to":1}
{"p":0,"e":"send","to":1}
{"p":0,"e":"send","to":1}
{"p":1,"e":"post","request":1}
{"p":1,"e":"post","request":2}
{"p":1,"e":"post","request":3}
{"p":1,"e":"receive","from":0,"request":2}
{"p":1,"e":"receive","from":0}
{"p":1,"e":"complete","request":3,"cancelled":true}
{"p":1,"e":"receive","from":0,"request":1}
)",
                                   "t");
    ASSERT_TRUE(trace);
    const auto loaded = Computation::load(**trace);
    ASSERT_TRUE(loaded) << loaded.error().what;
    EXPECT_EQ(loaded->partner(loaded->index({1, 3})), 1U);
    EXPECT_EQ(loaded->partner(loaded->index({1, 4})), 2U);
    EXPECT_EQ(loaded->partner(loaded->index({1, 6})), 0U);
    EXPECT_EQ(loaded->in_transit(), 0U);
}

// Receives come behind their sends, and who hears from others in a rooted operation behind them.
void expect_causes_first(const Computation& loaded, const std::string& what) {
    std::vector<bool> seen(loaded.size());
    for (const Index e : loaded.order()) {
        const Event& event = loaded.event(e);
        if (event.kind == Kind::receive) {
            EXPECT_TRUE(seen[loaded.partner(e)]) << what << ": " << loaded.text(e);
        }
        const bool is_root = event.peer == loaded.process_of(e);
        if (event.kind == Kind::collective && event.shape != Shape::all &&
            is_root == (event.shape == Shape::to_root)) {
            for (const Index member : loaded.group(e).members)
                EXPECT_TRUE(member == e || seen[member] ||
                            (!is_root && loaded.process_of(member) != event.peer))
                    << what << ": " << loaded.text(e) << " comes before " << loaded.text(member);
        }
        seen[e] = true;
    }
}

TEST(CausalityTrace, OrderPutsCausesFirst) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        MemoryTrace trace = random_trace(seed);
        const auto loaded = Computation::load(trace);
        ASSERT_TRUE(loaded) << seed << ": " << loaded.error().what;
        std::vector<Position> at(trace.processes());
        for (const Index e : loaded->order()) {
            const EventId id = loaded->id(e);
            EXPECT_EQ(id.position, at[id.process]++);
            EXPECT_EQ(loaded->event(e), trace.events(id.process)[id.position]);
        }
        for (Process p = 0; p < trace.processes(); ++p) EXPECT_EQ(at[p], trace.events(p).size());
        expect_causes_first(*loaded, fmt::format("seed {}", seed));
    }
}

// Each process may have lost its last events: what is left has an order, whoever is missing in an operation.
TEST(CausalityTrace, OrderPutsCausesFirstAlsoWhereEndsAreLost) {
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        Random random(seed);
        MemoryTrace trace = random_trace(seed);
        MemoryTrace left(trace.processes());
        for (const Communicator& each : trace.communicators()) left.communicator(each);
        for (Process p = 0; p < trace.processes(); ++p) {
            const auto& events = trace.events(p);
            std::size_t count = events.size();
            if (random.chance(60) && count > 0) {
                count = random.below(static_cast<std::uint32_t>(count));
                left.set_ended(p, false);
            }
            for (Event event : std::span(events).first(count)) {
                event.place = 0;
                left.append(p, event);
            }
        }
        const auto loaded = Computation::load(left);
        ASSERT_TRUE(loaded) << seed << ": " << loaded.error().what;
        expect_causes_first(*loaded, fmt::format("seed {}", seed));
        const ClockTable clocks(*loaded);
        for (Index e = 0; e < loaded->size(); ++e) {
            EXPECT_TRUE(consistent(*loaded, clocks, earliest_after(*loaded, clocks, e))) << seed;
            EXPECT_TRUE(consistent(*loaded, clocks, latest_before(*loaded, clocks, e))) << seed;
        }
    }
}

}  // namespace
