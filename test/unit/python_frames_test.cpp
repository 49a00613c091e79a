// Reading CPython's frames out of memory: tables of lines as Python writes them, cut off, and lists that a
// damaged image or a wrong guess may have instead of frames. foreign.python_stacks reads living ones.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "common/python/frames.h"
#include "common/python/line_table.h"

namespace cairn::python {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(PythonLines, UntilNineAreSteps) {
    const Bytes table{6, 1, 4, 2, 0, 255, 10, 3};  // 255 is -1
    EXPECT_EQ(line_of(9, table, 10, 0), 10);
    EXPECT_EQ(line_of(9, table, 10, 6), 11);
    EXPECT_EQ(line_of(9, table, 10, 10), 12);
    EXPECT_EQ(line_of(9, table, 10, 1'000), 15);
    EXPECT_EQ(line_of(9, {}, 10, 4), 10);
}

TEST(PythonLines, OfTenAreRangesSomeWithoutALine) {
    const Bytes table{4, 1, 2, 128, 6, 255};
    EXPECT_EQ(line_of(10, table, 10, 0), 11);
    EXPECT_EQ(line_of(10, table, 10, 4), 0);
    EXPECT_EQ(line_of(10, table, 10, 6), 10);
    EXPECT_EQ(line_of(10, table, 10, 12), 0);
}

TEST(PythonLines, FromElevenAreLocations) {
    const Bytes table{
        0xD8, 0,                 // one instruction, the same line: code 11 goes one on
        0xE9, 0x42, 0x01,        // two, without columns: 0x42 goes on with 0x01, (2 | 1 << 6) >> 1 lines
        0xF0, 0x03, 0,    0, 0,  // one, all numbers: 3 is one line back
        0x80, 0,                 // one, a short form, the same line
        0xF8,                    // one, none
    };
    EXPECT_EQ(line_of(11, table, 10, 0), 11);
    EXPECT_EQ(line_of(11, table, 10, 2), 44);
    EXPECT_EQ(line_of(11, table, 10, 4), 44);
    EXPECT_EQ(line_of(11, table, 10, 6), 43);
    EXPECT_EQ(line_of(11, table, 10, 8), 43);
    EXPECT_EQ(line_of(11, table, 10, 10), 0);
    for (std::size_t size = 0; size < table.size(); ++size)
        EXPECT_GE(line_of(11, std::span(table).first(size), 10, 100), 0);
}

// Memory that is zero but for some words.
struct Memory {
    std::map<std::uint64_t, std::uint64_t> words{};
    std::size_t reads = 0;

    bool operator()(ProgramAddress at, std::span<std::byte> to) {
        ++reads;
        for (std::size_t i = 0; i < to.size(); i += 8) {
            const auto found = words.find(at.value() + i);
            const std::uint64_t word = found == words.end() ? 0 : found->second;
            std::memcpy(to.data() + i, &word, std::min<std::size_t>(8, to.size() - i));
        }
        return at.value() < 0x10'0000;
    }
};

constexpr std::uint64_t runtime = 0x1000, interpreter = 0x2000, thread = 0x3000, cframe = 0x4000,
                        frame = 0x5000;

Memory of_12() {
    return {.words = {{runtime + 40, interpreter},
                      {interpreter + 72, thread},
                      {thread + 136, 0x7777},
                      {thread + 56, cframe},
                      {cframe, frame}}};
}

std::vector<Thread> read_with(Memory& memory) {
    return threads_of({.minor = 12, .runtime = ProgramAddress(runtime)}, {.functions = 100, .reads = 5'000},
                      [&](ProgramAddress at, std::span<std::byte> to) { return memory(at, to); });
}

TEST(PythonFrames, FramesInACircleAreLeft) {
    // What has no code, and what is C's (its owner is the byte at 70), have no function to be counted by.
    for (const std::uint64_t owner : {std::uint64_t{0}, std::uint64_t{3} << 48}) {
        Memory memory = of_12();
        memory.words[frame + 8] = frame;
        memory.words[frame + 64] = owner;
        const auto threads = read_with(memory);
        ASSERT_EQ(threads.size(), 1U);
        EXPECT_EQ(threads[0].fs_base, 0x7777U);
        EXPECT_TRUE(threads[0].frames.empty());
        EXPECT_TRUE(threads[0].cut);
        EXPECT_LE(memory.reads, 5'000U);
    }
}

TEST(PythonFrames, ThreadsAndInterpretersInACircleAreLeft) {
    for (const auto& [place, target] : {std::pair{thread + 8, thread}, std::pair{interpreter, interpreter}}) {
        Memory memory = of_12();
        memory.words[place] = target;
        EXPECT_LE(read_with(memory).size(), 5'000U);
        EXPECT_LE(memory.reads, 5'000U);
    }
}

TEST(PythonFrames, WhatIsNoMemoryEndsIt) {
    Memory memory = of_12();
    memory.words[cframe] = 0x7000'0000'0000;
    EXPECT_TRUE(read_with(memory).at(0).frames.empty());
    memory.words[runtime + 40] = 0;
    EXPECT_TRUE(read_with(memory).empty());
    EXPECT_TRUE(threads_of({.minor = 14, .runtime = ProgramAddress(runtime)},
                           {.functions = 100, .reads = 5'000}, [](auto, auto) { return true; })
                    .empty());
}

}  // namespace
}  // namespace cairn::python
