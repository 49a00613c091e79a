// What the causality library costs: events a second, and growth over three orders of magnitude. Prints one
// table. bench_causality [PROCESSES [LARGEST]]: traces of LARGEST/1000, /100, /10 and LARGEST events.
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "causality/computation.h"
#include "causality/places.h"
#include "causality/trace_reader.h"
#include "causality/trace_writer.h"
#include "test/causality/algorithm2.h"
#include "test/causality/random.h"

namespace {

using namespace cairn;
using namespace cairn::causality;
using cairn::test::Random;

// Of this process on a CPU, in seconds: a machine that does other things at the same time says the same.
struct Clock {
    static double now() {
        timespec t{};
        ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
    }
};

double since(double began) {
    return Clock::now() - began;
}

[[noreturn]] void give_up(const Error& error) {
    fmt::print(stderr, "bench_causality: {}\n", error.what);
    std::exit(1);
}

// Random partners, with a barrier and a checkpoint here and there. Written process by process as they run.
std::uint64_t write(TraceWriter& writer, Process n, std::uint64_t events, double& seconds) {
    Random random(events);
    struct Message {
        Process from, to;
    };
    std::vector<Message> transit;
    std::vector<Event> batch;
    std::vector<Process> whose;
    std::uint64_t made = 0;
    std::int64_t now = 0;
    const auto place = writer.place({.file = "bench.c", .line = 1, .function = "step", .call = ""});
    if (!place) give_up(place.error());
    const auto add = [&](Process p, Event event) {
        event.time = now += 50 + random.below(100);
        event.place = *place;
        batch.push_back(event);
        whose.push_back(p);
        ++made;
    };
    const auto flush = [&] {
        const auto began = Clock::now();
        for (std::size_t i = 0; i < batch.size(); ++i)
            if (auto done = writer.append(whose[i], batch[i]); !done) give_up(done.error());
        seconds += since(began);
        batch.clear();
        whose.clear();
    };
    // Messages are counted: whichever of a channel is taken is its first.
    while (made + 2 * transit.size() < events) {
        const Process p = random.below(n);
        if (random.below(200) == 0) {
            add(p, {.kind = Kind::checkpoint});
        } else if (random.below(4000) == 0) {
            while (!transit.empty()) {
                add(transit.back().to, {.kind = Kind::receive, .peer = transit.back().from});
                transit.pop_back();
            }
            for (Process q = 0; q < n; ++q) add(q, {.kind = Kind::collective, .shape = Shape::all});
        } else {
            const Process to = (p + 1 + random.below(n - 1)) % n;
            add(p, {.kind = Kind::send, .peer = to});
            transit.push_back({p, to});
            if (transit.size() > n) {
                const std::size_t at = random.below(static_cast<std::uint32_t>(transit.size()));
                add(transit[at].to, {.kind = Kind::receive, .peer = transit[at].from});
                transit[at] = transit.back();
                transit.pop_back();
            }
        }
        if (batch.size() > 100000) flush();
    }
    flush();
    if (auto done = writer.close(); !done) give_up(done.error());
    return made;
}

std::uint64_t resident_mib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) / 1024;
}

void measure(Process n, std::uint64_t events) {
    char folder[] = "/tmp/cairn-bench-XXXXXX";
    if (::mkdtemp(folder) == nullptr) std::exit(1);
    const std::string path = std::string(folder) + "/trace";
    double appending = 0;
    auto writer = TraceWriter::create(path, n);
    if (!writer) give_up(writer.error());
    const std::uint64_t made = write(*writer, n, events, appending);
    const double bytes = static_cast<double>(writer->bytes_written()) / static_cast<double>(made);
    const std::string paths[] = {path};
    auto reader = TraceReader::open(paths);
    if (!reader) give_up(reader.error());

    auto began = Clock::now();
    Event event;
    std::uint64_t read = 0;
    for (Process p = 0; p < n; ++p)
        while (*(*reader)->next(p, event)) ++read;
    const double reading = since(began);

    (*reader)->rewind();
    began = Clock::now();
    if (auto done = check_trace(**reader); !done) give_up(done.error());
    const double checking = since(began);

    (*reader)->rewind();
    began = Clock::now();
    const auto loaded = Computation::load(**reader);
    if (!loaded) give_up(loaded.error());
    const double loading = since(began);

    began = Clock::now();
    const ClockTable clocks(*loaded);
    const double building = since(began);
    Random random(1);
    constexpr int queries = 1000000;
    std::uint64_t yes = 0;
    began = Clock::now();
    for (int i = 0; i < queries; ++i)
        yes += clocks.before(random.below(loaded->size()), random.below(loaded->size())) ? 1U : 0U;
    const double querying = since(began);

    began = Clock::now();
    const Places places(*loaded);
    const auto first = places.earliest_after(loaded->size() / 2);
    const auto last = places.latest_before(loaded->size() / 2);
    const double searching = since(began);
    began = Clock::now();
    const auto best = places.best(10, 0);
    const auto lines = places.lines();
    const double ranking = since(began);

    began = Clock::now();
    const Pattern pattern = pattern_of(*loaded);
    const Zigzag graph(pattern);
    const std::size_t useless = graph.useless().size();
    const Process one[] = {0};
    const auto line = graph.recovery_line(one);
    const double zigzag = since(began);

    const auto rate = [&](double seconds) { return static_cast<double>(made) / seconds / 1e6; };
    fmt::print(
        "{:>10} {:>6.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.2f} {:>7.1f} {:>8.2f} {:>8.2f} {:>8.2f} "
        "{:>8.2f} {:>8}\n",
        made, bytes, rate(appending), rate(reading), rate(checking), rate(loading), rate(building),
        static_cast<double>(clocks.bytes()) / static_cast<double>(made), queries / querying / 1e6,
        rate(searching), rate(ranking), rate(zigzag), resident_mib());
    std::fflush(stdout);
    if (yes == 0 || read != made || (first.has_value() && first->empty()) || (last && last->empty()) ||
        best.size() > 10 || lines.size() > 10 || useless > made || line.line.size() != n)
        std::exit(1);
    ::unlink(path.c_str());
    ::rmdir(folder);
}

// Algorithm 2 of the paper beside ours. Some processes send to one, which takes a message of each in turn: a
// place for each message and one more. Which gaps of the senders go together shows only when the receiver's
// are tried, after theirs.
void against_algorithm_2() {
    constexpr std::uint64_t patience = 400000;
    constexpr std::int64_t messages = 6;
    fmt::print(
        "\nPlaces by algorithm 2 of the paper, given up after {} gaps, and by ours (earliest, latest, "
        "ranked)\n",
        patience);
    fmt::print("{:>10} {:>8} {:>8} {:>12} {:>13} {:>12}\n", "processes", "events", "places", "gaps tried",
               "algorithm 2", "ours");
    for (Process senders = 1; senders <= 12; ++senders) {
        MemoryTrace trace(senders + 1);
        for (std::int64_t i = 0; i < messages; ++i)
            for (Process p = 0; p < senders; ++p) {
                trace.append(p, {.kind = Kind::send, .peer = senders, .time = i * 100 + std::int64_t{p}});
                trace.append(senders,
                             {.kind = Kind::receive, .peer = p, .time = i * 100 + 50 + std::int64_t{p}});
            }
        const auto loaded = Computation::load(trace);
        if (!loaded) give_up(loaded.error());
        auto began = Clock::now();
        test::Algorithm2 oracle(*loaded);
        oracle.most_steps = patience;
        std::uint64_t found = 0;
        oracle.run([&](const Cut&) { return ++found != 0; });
        const double theirs = since(began);
        began = Clock::now();
        const Places places(*loaded);
        static_cast<void>(places.earliest_after(loaded->size() / 2));
        static_cast<void>(places.latest_before(loaded->size() / 2));
        static_cast<void>(places.best(10, 0));
        const double ours = since(began);
        std::uint64_t all = 0;
        places.for_each([&](const Cut&) { return ++all != 0; });
        if (!oracle.gave_up() && all != found) std::exit(1);
        fmt::print("{:>10} {:>8} {:>8} {:>12} {:>11.4f} s {:>10.6f} s{}\n", senders + 1, loaded->size(), all,
                   oracle.steps, theirs, ours, oracle.gave_up() ? "   given up" : "");
        std::fflush(stdout);
        if (theirs > 20) break;
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto n = static_cast<Process>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64);
    const std::uint64_t largest = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10000000;
    if (n < 2 || largest < 1000) return 2;
    against_algorithm_2();
    fmt::print("\n{} processes, random partners; millions of events in a second of CPU time\n", n);
    fmt::print("{:>10} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "events",
               "bytes", "append", "read", "check", "load", "clocks", "bytes", "queries", "places", "ranked",
               "zigzag", "MiB");
    for (std::uint64_t events = largest / 1000; events <= largest; events *= 10) measure(n, events);
}
