// What the tests of traces share: random ones, and everything that a source gives, as text.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "causality/trace_json.h"
#include "causality/trace_writer.h"
#include "test/causality/random.h"

namespace cairn::test::traces {

using namespace cairn::causality;
using cairn::test::Random;

inline MemoryTrace random_trace(std::uint64_t seed, bool sized = true) {
    Random random(seed);
    return cairn::test::random_trace(random, {.processes = 2 + random.below(4),
                                              .events = 10 + random.below(60),
                                              .numbered = random.chance(50),
                                              .requests = random.chance(50),
                                              .nondeterministic = true,
                                              .sized = sized && random.chance(70)});
}

inline void write(MemoryTrace& trace, TraceWriter& writer, Process only = none) {
    for (const Communicator& each : trace.communicators()) ASSERT_TRUE(writer.communicator(each));
    for (Process p = 0; p < trace.processes(); ++p) {
        if (only != none && p != only) continue;
        for (Event event : trace.events(p)) {
            const auto place = writer.place(trace.places()[event.place]);
            ASSERT_TRUE(place);
            event.place = *place;
            const auto type = writer.type(trace.types()[event.type]);
            ASSERT_TRUE(type);
            event.type = *type;
            ASSERT_TRUE(writer.append(p, event));
        }
        if (auto standing = trace.standing(p)) {
            const auto place = writer.place(trace.places()[standing->event.place]);
            ASSERT_TRUE(place);
            standing->event.place = *place;
            ASSERT_TRUE(writer.standing(p, *standing));
        }
        for (Leak leak : trace.leaks()) {
            if (leak.process != p) continue;
            const auto place = writer.place(trace.places()[leak.place]);
            ASSERT_TRUE(place);
            leak.place = *place;
            ASSERT_TRUE(writer.leak(leak));
        }
    }
}

inline std::string text_of(TraceSource& source) {
    std::string text;
    TraceLine line;
    const auto put = [&](TraceLine::What what) {
        line.what = what;
        text += trace_line(line) + "\n";
    };
    for (const Communicator& each : source.communicators()) {
        line.communicator = each;
        put(TraceLine::What::communicator);
    }
    for (line.process = 0; line.process < source.processes(); ++line.process) {
        for (;;) {
            const auto more = source.next(line.process, line.event);
            if (!more) return "error: " + more.error().what;
            if (!*more) break;
            line.place = source.places()[line.event.place];
            line.type = source.types()[line.event.type];
            put(TraceLine::What::event);
        }
        if (const auto& standing = source.standing(line.process)) {
            line.standing = *standing;
            line.type.clear();
            line.place = source.places()[standing->event.place];
            put(TraceLine::What::standing);
        }
    }
    for (const Leak& each : source.leaks()) {
        line.leak = each;
        line.process = each.process;
        line.place = source.places()[each.place];
        put(TraceLine::What::leak);
    }
    return text;
}

inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace cairn::test::traces
