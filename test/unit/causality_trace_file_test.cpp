// The file of a trace: what a crash leaves, how it is continued, other versions, damage.
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "causality/computation.h"
#include "causality/trace_reader.h"
#include "test/causality/trace_text.h"
#include "test/unit/folder.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using namespace cairn::test::traces;
using cairn::test::Folder;
using cairn::test::Random;

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

TEST(CausalityTrace, AKilledProcessLeavesItsTail) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        Random random(seed);
        const Folder folder;
        MemoryTrace trace(2);
        const std::string path = folder / "t";
        auto writer = TraceWriter::create(path, 2, 40, 1);
        ASSERT_TRUE(writer);
        ASSERT_TRUE(writer->tail());
        const std::uint32_t events = random.below(60);
        for (std::uint32_t i = 0; i < events; ++i) {
            const std::string name = "MPI_" + std::to_string(random.below(3));
            Event event{.kind = Kind::send, .peer = 0, .tag = static_cast<std::int32_t>(random.below(3))};
            event.bytes = i;
            const Place where{
                .file = "a.c", .line = 1 + random.below(4), .function = "f", .call = "MPI_Send"};
            event.type = trace.type(name);
            event.place = trace.place(where);
            trace.append(1, event);
            event.type = writer->type(name).value();
            event.place = writer->place(where).value();
            ASSERT_TRUE(writer->append(1, event));
        }
        trace.set_ended(0, false);
        trace.set_ended(1, false);
        const bool stands = random.chance(60);
        const Standing standing{.event = {.kind = Kind::complete}, .requests = {7, 8}, .any = true};
        if (stands) {
            ASSERT_TRUE(writer->standing(1, standing));
        }
        if (stands && random.chance(30))
            writer->tail()->leave();
        else if (stands)
            trace.set_standing(1, standing);
        const std::string paths[] = {path};
        auto reader = TraceReader::open(paths);
        ASSERT_TRUE(reader) << reader.error().what;
        EXPECT_FALSE((*reader)->ended(1));
        EXPECT_EQ(text_of(**reader), text_of(trace)) << "seed " << seed;
        EXPECT_FALSE(TraceWriter::resume(path));
        // And a machine that goes down may leave anything there.
        std::string bytes = read_file(path);
        for (std::size_t i = sizeof(TraceHeader) + sizeof(BlockHeader);
             i < sizeof(TraceHeader) + sizeof(BlockHeader) + 400; ++i)
            bytes[i] = static_cast<char>(random.below(256));
        write_file(path, bytes);
        auto damaged = TraceReader::open(paths);
        ASSERT_TRUE(damaged) << damaged.error().what;
        EXPECT_GE((*damaged)->notes().size(), 1U);
        // Closed, it counts no more.
        ASSERT_TRUE(writer->close());
        auto closed = TraceReader::open(paths);
        ASSERT_TRUE(closed);
        EXPECT_EQ((*closed)->events(), events);
        EXPECT_FALSE((*closed)->standing(1));
    }
}

// A send that waits is in the trace before it returns, and how long it took when it has.
TEST(CausalityTrace, AnOpenEventLearnsHowLongItsCallTook) {
    const Folder folder;
    const std::string path = folder / "t";
    const std::string paths[] = {path};
    const Event send{.kind = Kind::send, .peer = 1, .time = 1000};
    const auto took = [&] {
        auto reader = TraceReader::open(paths);
        EXPECT_TRUE(reader) << reader.error().what;
        std::vector<std::int64_t> all;
        for (Event event; reader && (*reader)->next(0, event).value_or(false);) all.push_back(event.took);
        return all;
    };
    using All = std::vector<std::int64_t>;
    constexpr std::int64_t longest = (std::int64_t{1} << 42) - 1;
    // A block for each event, and a large one.
    for (const std::size_t block : {std::size_t{1}, TraceWriter::usual_block}) {
        std::filesystem::remove(path);
        auto writer = TraceWriter::create(path, 2, block, 0);
        ASSERT_TRUE(writer);
        ASSERT_TRUE(writer->append_open(0, send));
        EXPECT_EQ(took(), All({0}));
        writer->lasted(0, 200);
        EXPECT_EQ(took(), All({200}));
        writer->lasted(0, 300);  // it has been said
        ASSERT_TRUE(writer->append_open(0, send));
        ASSERT_TRUE(writer->append(0, send));
        writer->lasted(0, 400);  // the last one isn't open
        ASSERT_TRUE(writer->append_open(0, send));
        writer->lasted(0, INT64_MAX);
        ASSERT_TRUE(writer->append_open(0, send));
        ASSERT_TRUE(writer->flush());
        writer->lasted(0, 500);  // it is written
        EXPECT_EQ(took(), All({200, 0, 0, longest, 0}));
        ASSERT_TRUE(writer->close());
        EXPECT_EQ(took(), All({200, 0, 0, longest, 0}));
    }
}

TEST(CausalityTrace, AnEarlierVersionIsRead) {
    const Folder folder;
    const std::string path = folder / "t";
    MemoryTrace trace(2);
    trace.append(0, {.kind = Kind::send, .peer = 1, .tag = 5});
    trace.append(1, {.kind = Kind::receive, .flags = Flag::nondeterministic, .peer = 0, .tag = 5});
    auto writer = TraceWriter::create(path, 2);
    ASSERT_TRUE(writer);
    write(trace, *writer);
    ASSERT_TRUE(writer->close());
    const std::string expected = text_of(trace);
    std::string bytes = read_file(path);
    for (const std::uint32_t version : {1U, 2U, 3U, 5U}) {
        TraceHeader header;
        std::memcpy(&header, bytes.data(), sizeof header);
        header.version = version;
        header.checksum = checksum_of(header);
        std::memcpy(bytes.data(), &header, sizeof header);
        write_file(path, bytes);
        const std::string paths[] = {path};
        auto reader = TraceReader::open(paths);
        ASSERT_EQ(reader.has_value(), version == 2 || version == 3);
        if (!reader) {
            EXPECT_NE(reader.error().what.find("this cairn reads versions 2 to 4"), std::string::npos);
            continue;
        }
        EXPECT_EQ(text_of(**reader), expected);
        EXPECT_EQ((*reader)->says_all(), version == 3);
    }
}

TEST(CausalityTrace, AFileIsContinued) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Folder folder;
        MemoryTrace trace = random_trace(seed, false);
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

}  // namespace
