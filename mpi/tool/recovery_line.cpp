#include "mpi/tool/recovery_line.h"

#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "causality/trace_reader.h"
#include "common/human.h"
#include "common/json_text.h"
#include "common/printable.h"

namespace cairn::mpi::tool {
namespace {

using causality::Computation;
using causality::Event;
using causality::Flag;
using causality::Index;
using causality::Kind;
using causality::Position;
using causality::Process;

// Beginnings of collective operations that end in the same call: a trace with checkpoints has them so that a
// checkpoint can be in between.
std::vector<bool> only_beginnings(const Computation& c, Process p) {
    std::vector<bool> found(c.size(p));
    Position begin = causality::none;
    for (Position i = 0; i < c.size(p); ++i) {
        const Event& event = c.event(c.first(p) + i);
        if (event.kind == Kind::checkpoint) continue;
        if (begin != causality::none && event.has(Flag::joined) && event.kind == Kind::collective &&
            event.request == c.event(c.first(p) + begin).request)
            found[begin] = true;
        begin = event.kind == Kind::post && event.has(Flag::for_collective) ? i : causality::none;
    }
    return found;
}

const char* name(Standpoint::What what) {
    switch (what) {
        case Standpoint::What::beginning:
            return "beginning";
        case Standpoint::What::basic:
            return "basic";
        case Standpoint::What::forced:
            return "forced";
        case Standpoint::What::end:
            return "end";
    }
    return "unknown";
}

Standpoint standpoint_of(const Computation& c, Process p, std::uint32_t number, std::uint32_t intervals) {
    Standpoint at;
    at.number = number;
    if (number == intervals) at.what = Standpoint::What::end;
    if (number != intervals) at.given_up = intervals - 1 - number;
    const std::vector<bool> skipped = only_beginnings(c, p);
    std::uint32_t seen = 0;
    Index last = causality::none;
    for (Position i = 0; i < c.size(p); ++i) {
        const Index index = c.first(p) + i;
        const Event& event = c.event(index);
        const bool reached = number != 0 && number != intervals && seen == number;
        if (number == 0) break;
        if (event.kind == Kind::checkpoint && !reached) {
            if (++seen == number)
                at.what = event.has(Flag::forced) ? Standpoint::What::forced : Standpoint::What::basic;
            continue;
        }
        if (event.kind == Kind::checkpoint) continue;
        if (reached) {
            at.within = event.has(Flag::joined);
            break;
        }
        if (!event.has(Flag::joined)) ++at.event;
        if (!skipped[i]) ++at.position;
        last = index;
    }
    if (last != causality::none) at.place = causality::describe(c.place(last));
    return at;
}

nlohmann::json json_of(const Standpoint& at) {
    return {{"checkpoint", at.number}, {"kind", name(at.what)}, {"given_up", at.given_up},
            {"event", at.event},       {"within", at.within},   {"position", at.position},
            {"place", at.place}};
}

std::vector<std::uint64_t> sizes_of(const std::vector<std::string>& files) {
    std::vector<std::uint64_t> sizes;
    for (const std::string& each : files) {
        std::error_code failed;
        sizes.push_back(std::filesystem::file_size(each, failed));
    }
    return sizes;
}

}  // namespace

RecoveryLine recovery_line_of(const Computation& c, std::span<const Process> failed) {
    const causality::Pattern pattern = causality::pattern_of(c);
    const causality::Zigzag graph(pattern);
    const auto line = graph.recovery_line(failed);
    const auto needed = graph.needed();
    RecoveryLine found;
    found.useless = graph.useless().size();
    for (const auto& step : pattern.steps()) {
        if (step.what() == causality::Pattern::What::basic) ++found.basic;
        if (step.what() == causality::Pattern::What::forced) ++found.forced;
    }
    for (Process p = 0; p < c.processes(); ++p) {
        found.ranks.push_back(standpoint_of(c, p, line.line[p], pattern.intervals(p)));
        found.needless += pattern.intervals(p) - needed[p].size();
    }
    return found;
}

Result<std::vector<Process>> failed_ranks(const std::string& text, Process ranks) {
    std::vector<Process> failed;
    if (text.empty())
        for (Process p = 0; p < ranks; ++p) failed.push_back(p);
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find_first_of(", ", begin), text.size());
        Process rank = 0;
        const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, rank);
        if (error != std::errc() || rest != text.data() + end || rank >= ranks)
            return fail_code(ExitCode::usage, "'{}': the ranks are 0 to {}", text.substr(begin, end - begin),
                             ranks - 1);
        failed.push_back(rank);
        begin = text.find_first_not_of(", ", end);
    }
    return failed;
}

Result<Computation> trace_with_checkpoints(const std::string& folder) {
    return trace_with_checkpoints(
        folder, [](std::unique_ptr<causality::TraceSource> source) { return Computation::load(*source); });
}

Result<Computation> trace_with_checkpoints(const std::string& folder, const LoadTrace& load) {
    const auto read = [&](const std::vector<std::string>& paths) -> Result<Computation> {
        return load(TRY(causality::TraceReader::open(paths)));
    };
    std::vector<std::string> files;
    for (;;) {
        std::string next = fmt::format("{}/trace.{}", folder, files.size());
        if (::access(next.c_str(), F_OK) != 0) break;
        files.push_back(std::move(next));
    }
    if (files.empty())
        return fail_code(ExitCode::usage,
                         "{} has no trace.0: `cairn mpi record --checkpoints PROTOCOL --out DIR` writes it",
                         folder);
    // A job that still runs may be in the middle of a block: whoever has grown meanwhile is read again.
    constexpr int most = 50;
    for (int times = 1;; ++times) {
        const auto before = sizes_of(files);
        auto loaded = read(files);
        if (loaded || loaded.error().code != ExitCode::damaged || times == most) return loaded;
        ::poll(nullptr, 0, 20);
        if (sizes_of(files) == before) return loaded;
    }
}

std::string text_of(const Standpoint& at) {
    if (at.what == Standpoint::What::end) return "goes on as it is";
    std::string text = at.what == Standpoint::What::beginning
                           ? "its beginning"
                           : fmt::format("checkpoint {} ({}), {} event {}", at.number, name(at.what),
                                         at.within ? "in" : "behind", at.event);
    if (!at.place.empty()) text += fmt::format(": {}", printable(at.place));
    if (at.given_up != 0) text += fmt::format("; {} given up", human_count(at.given_up, "checkpoint"));
    return text;
}

Result<> recovery_line(const Options& options) {
    const auto c = TRY(trace_with_checkpoints(options.folder));
    const auto failed = TRY(failed_ranks(options.failed, c.processes()));
    const RecoveryLine found = recovery_line_of(c, failed);
    if (options.json) {
        nlohmann::json ranks = nlohmann::json::array();
        for (const Standpoint& each : found.ranks) ranks.push_back(json_of(each));
        fmt::print("{}\n", json_text(nlohmann::json{{"ranks", std::move(ranks)},
                                                    {"failed", failed},
                                                    {"basic", found.basic},
                                                    {"forced", found.forced},
                                                    {"useless", found.useless},
                                                    {"needless", found.needless}}));
        return {};
    }
    for (std::size_t rank = 0; rank < found.ranks.size(); ++rank)
        fmt::print("rank {}: {}\n", rank, text_of(found.ranks[rank]));
    fmt::print(
        "{} basic and {} forced checkpoints, {} of them useless; {} of {} can be thrown away, beginnings "
        "counted\n",
        found.basic, found.forced, found.useless, found.needless,
        found.basic + found.forced + found.ranks.size());
    return {};
}

}  // namespace cairn::mpi::tool
