// The trace's two forms, and what is refused.
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>
#include <span>
#include <sstream>

#include "causality/computation.h"
#include "causality/cuts.h"
#include "causality/lines_file.h"
#include "causality/trace_json.h"
#include "causality/trace_reader.h"
#include "causality/trace_writer.h"
#include "test/causality/random.h"
#include "test/unit/folder.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Folder;
using cairn::test::Random;

MemoryTrace random_trace(std::uint64_t seed) {
    Random random(seed);
    return test::random_trace(random, {.processes = 2 + random.below(4),
                                       .events = 10 + random.below(60),
                                       .numbered = random.chance(50),
                                       .requests = random.chance(50),
                                       .nondeterministic = true});
}

void write(MemoryTrace& trace, TraceWriter& writer, Process only = none) {
    for (const Communicator& each : trace.communicators()) ASSERT_TRUE(writer.communicator(each));
    for (Process p = 0; p < trace.processes(); ++p) {
        if (only != none && p != only) continue;
        for (Event event : trace.events(p)) {
            const auto place = writer.place(trace.places()[event.place]);
            ASSERT_TRUE(place);
            event.place = *place;
            ASSERT_TRUE(writer.append(p, event));
        }
    }
}

// Everything that a source gives, with places by name.
std::string text_of(TraceSource& source) {
    std::string text;
    for (const Communicator& each : source.communicators())
        text += trace_line(
                    {.what = TraceLine::What::communicator, .communicator = each, .event = {}, .place = {}}) +
                "\n";
    for (Process p = 0; p < source.processes(); ++p) {
        Event event;
        for (;;) {
            const auto more = source.next(p, event);
            if (!more) return "error: " + more.error().what;
            if (!*more) break;
            const Place place = source.places()[event.place];
            text += trace_line({.what = TraceLine::What::event,
                                .communicator = {},
                                .process = p,
                                .event = event,
                                .place = place}) +
                    "\n";
        }
    }
    return text;
}

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

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// The same lines, one of each process in turn.
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
        std::string whole =
            trace_line({.processes = trace.processes(), .communicator = {}, .event = {}, .place = {}});
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
TEST(CausalityTrace, ACrashCostsTheLastBlockAtMost) {
    const Folder folder;
    Random random(9);
    MemoryTrace trace = test::random_trace(random, {.events = 30, .requests = true});
    const std::string path = folder / "t";
    auto writer = TraceWriter::create(path, trace.processes(), 30);
    ASSERT_TRUE(writer);
    std::vector<std::size_t> ends{sizeof(TraceHeader)};
    const auto note = [&] {
        if (writer->bytes_written() != ends.back()) ends.push_back(writer->bytes_written());
    };
    for (Process p = 0; p < trace.processes(); ++p)
        for (Event event : trace.events(p)) {
            event.place = 0;
            ASSERT_TRUE(writer->append(p, event));
            note();
        }
    const std::string whole = read_file(path);
    ASSERT_GT(ends.size(), 5U);
    const std::string paths[] = {path};
    const auto open = [&](std::size_t size, bool cut) {
        auto reader = TraceReader::open(paths);
        ASSERT_TRUE(reader) << size << ": " << reader.error().what;
        ASSERT_EQ((*reader)->notes().size(), 1U);
        EXPECT_EQ((*reader)->notes()[0].find("was lost") != std::string::npos, cut) << size;
        EXPECT_EQ(text_of(**reader).find("error"), std::string::npos);
    };
    for (std::size_t size = whole.size(); size >= sizeof(TraceHeader); --size) {
        std::filesystem::resize_file(path, size);
        open(size, std::find(ends.begin(), ends.end(), size) == ends.end());
        // Pages that the kernel hadn't written are zeros.
        std::filesystem::resize_file(path, size + 100);
        open(size, true);
    }
}

// However often it was closed, or cut by a crash, and opened again: the same events.
TEST(CausalityTrace, AFileIsContinued) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Folder folder;
        MemoryTrace trace = random_trace(seed);
        Random random(seed);
        const std::string expected = text_of(trace), path = folder / "t";
        const std::string paths[] = {path};
        auto writer = TraceWriter::create(path, trace.processes(), 40);
        ASSERT_TRUE(writer);
        for (const Communicator& each : trace.communicators()) ASSERT_TRUE(writer->communicator(each));
        std::vector<std::size_t> done(trace.processes());
        for (bool more = true; more;) {
            const Process p = random.below(trace.processes());
            if (done[p] < trace.events(p).size()) {
                Event event = trace.events(p)[done[p]++];
                event.place = writer->place(trace.places()[event.place]).value();
                const auto appended = writer->append(p, event);
                ASSERT_TRUE(appended) << appended.error().what;
            }
            switch (random.below(6)) {
                case 0:
                    ASSERT_TRUE(writer->close());
                    break;
                case 1:
                    ASSERT_TRUE(writer->close_unended());
                    break;
                case 2: {  // killed, in the middle of a block if there is one that was begun
                    const std::uint64_t safe = writer->bytes_written();
                    ASSERT_TRUE(writer->flush());
                    const std::uint64_t whole = writer->bytes_written();
                    if (whole > safe)
                        std::filesystem::resize_file(
                            path, safe + random.below(static_cast<std::uint32_t>(whole - safe)));
                    break;
                }
                default:
                    continue;
            }
            writer = TraceWriter::resume(path, 40);
            ASSERT_TRUE(writer) << writer.error().what;
            more = false;
            for (Process q = 0; q < trace.processes(); ++q) {
                // What was lost is written again.
                ASSERT_LE(writer->events(q), done[q]);
                done[q] = writer->events(q);
                more = more || done[q] < trace.events(q).size();
            }
        }
        ASSERT_TRUE(writer->close());
        auto reader = TraceReader::open(paths);
        ASSERT_TRUE(reader) << reader.error().what;
        EXPECT_TRUE((*reader)->notes().empty());
        EXPECT_EQ(text_of(**reader), expected) << "seed " << seed;
        for (Process p = 0; p < trace.processes(); ++p) EXPECT_EQ((*reader)->ended(p), done[p] > 0);
    }
}

TEST(CausalityTrace, WhatHasEndedBeforeOthersWroteStaysEnded) {
    const Folder folder;
    const std::string path = folder / "t";
    auto writer = TraceWriter::create(path, 3);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append(0, {.kind = Kind::checkpoint}));
    ASSERT_TRUE(writer->end(0));
    ASSERT_TRUE(writer->append(1, {.kind = Kind::checkpoint}));
    ASSERT_TRUE(writer->close());
    writer = TraceWriter::resume(path);
    ASSERT_TRUE(writer);
    EXPECT_FALSE(writer->append(0, {.kind = Kind::checkpoint}));
    EXPECT_TRUE(writer->append(1, {.kind = Kind::checkpoint}));
    EXPECT_EQ(writer->events(1), 2U);
    EXPECT_EQ(writer->events(2), 0U);
    EXPECT_FALSE(TraceWriter::resume(folder / "missing"));
    write_file(folder / "else", "a file of somebody else's, which has to stay as it is\n");
    EXPECT_FALSE(TraceWriter::resume(folder / "else"));
    EXPECT_EQ(read_file(folder / "else").size(), 54U);
}

TEST(CausalityTrace, EveryChangedByteIsNoticed) {
    const Folder folder;
    Random random(11);
    MemoryTrace trace = test::random_trace(random, {.events = 12, .requests = true});
    const std::string path = folder / "t";
    auto writer = TraceWriter::create(path, trace.processes(), 40);
    ASSERT_TRUE(writer);
    write(trace, *writer);
    ASSERT_TRUE(writer->close());
    const std::string whole = read_file(path);
    const std::string paths[] = {path};
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        const auto put = [&](char byte) {
            file.seekp(static_cast<std::streamoff>(at));
            file.put(byte).flush();
        };
        put(static_cast<char>(whole[at] ^ 0x10));
        auto reader = TraceReader::open(paths);
        if (!reader) {
            EXPECT_EQ(reader.error().code, ExitCode::damaged);
            EXPECT_NE(reader.error().what.find(path), std::string::npos);
            put(whole[at]);
            continue;
        }
        // The very last block may be one that a crash cut: the trace then isn't closed, which is said.
        const bool noticed =
            text_of(**reader).find("error") != std::string::npos || !(*reader)->notes().empty();
        EXPECT_TRUE(noticed) << at;
        put(whole[at]);
    }
}

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
