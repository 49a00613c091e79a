#include "mpi/tool/breakpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "causality/cuts.h"
#include "causality/trace_reader.h"
#include "mpi/record/reader.h"
#include "mpi/tool/launch.h"

namespace cairn::mpi::tool {
namespace {

using causality::Event;
using causality::Kind;
using causality::Process;
using causality::Shape;

// The trace of this record. Every collective is taken as one that everybody waits for: the MPI may send its
// data by way of any member, so none can leave it with some of them standing still.
Result<causality::Computation> load(const std::string& folder, int ranks) {
    std::vector<std::string> files;
    for (int rank = 0; rank < ranks; ++rank) {
        files.push_back(fmt::format("{}/trace.{}", folder, rank));
        if (::access(files.back().c_str(), F_OK) != 0)
            return fail("there is no {}. Make it once: mpiexec -n {} cairn mpi replay --trace {} {} PROGRAM",
                        files.back(), ranks, folder, folder);
    }
    const auto source = causality::TraceReader::open(files);
    if (!source) return std::unexpected(source.error());
    causality::MemoryTrace trace((*source)->processes());
    for (std::size_t i = 1; i < (*source)->places().size(); ++i)
        static_cast<void>(trace.place((*source)->places()[i]));
    for (const auto& each : (*source)->communicators()) trace.communicator(each);
    for (Process p = 0; p < trace.processes(); ++p) {
        Event event;
        for (;;) {
            const auto more = (*source)->next(p, event);
            if (!more) return std::unexpected(more.error());
            if (!*more) break;
            if (event.kind == Kind::collective) {
                event.shape = Shape::all;
                event.peer = causality::none;
            }
            trace.append(p, event);
        }
        trace.set_ended(p, (*source)->ended(p));
    }
    return causality::Computation::load(trace);
}

// The last event of the call that --at means.
Result<causality::Index> find(const causality::Computation& c, Process rank, const std::string& at) {
    std::string place = at;
    std::uint64_t count = 1, event = 0;
    const auto number = [](const std::string& text, std::uint64_t& into) {
        if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return false;
        into = std::strtoull(text.c_str(), nullptr, 10);
        return true;
    };
    const bool by_number = number(at, event);
    std::string file;
    std::uint64_t line = 0;
    if (!by_number) {
        // FUNCTION, FUNCTION:COUNT, FILE:LINE, FILE:LINE:COUNT: names of files have a dot.
        const std::size_t colon = place.find(':');
        const std::string first = place.substr(0, colon),
                          rest = colon == std::string::npos ? "" : place.substr(colon + 1);
        const std::size_t second = rest.find(':');
        if (first.find('.') != std::string::npos) {
            file = first;
            if (!number(rest.substr(0, second), line) ||
                (second != std::string::npos && !number(rest.substr(second + 1), count)))
                return fail_code(ExitCode::usage, "--at {}: EVENT, FILE:LINE[:COUNT] or FUNCTION[:COUNT]",
                                 at);
        } else {
            place = first;
            if (!rest.empty() && !number(rest, count))
                return fail_code(ExitCode::usage, "--at {}: EVENT, FILE:LINE[:COUNT] or FUNCTION[:COUNT]",
                                 at);
        }
    }
    std::uint64_t calls = 0, seen = 0;
    for (causality::Position i = 0; i < c.size(rank); ++i) {
        const causality::Index index = c.first(rank) + i;
        const Event& e = c.event(index);
        if (e.has(causality::Flag::joined)) continue;
        ++calls;
        const causality::Place& where = c.place(index);
        const bool here = by_number      ? calls == event
                          : file.empty() ? where.function == place
                                         : where.file == file && where.line == line;
        if (!here || (!by_number && ++seen < count)) continue;
        causality::Index last = index;
        while (last + 1 < c.first(rank) + c.size(rank) && c.event(last + 1).has(causality::Flag::joined))
            ++last;
        return last;
    }
    return fail("rank {} has no event {} in this record: {} calls, {} of them there", rank, at, calls, seen);
}

}  // namespace

Result<> break_at(const Options& options) {
    const auto record = RecordReader::open(options.folder, 0);
    if (!record) return std::unexpected(record.error());
    const int ranks = (*record)->identity().size;
    if (options.rank < 0 || options.rank >= ranks)
        return fail_code(ExitCode::usage, "--rank {}: the ranks are 0 to {}", options.rank, ranks - 1);
    const auto c = load(options.folder, ranks);
    if (!c) return std::unexpected(c.error());
    const auto event = find(*c, static_cast<Process>(options.rank), options.at);
    if (!event) return std::unexpected(event.error());
    const causality::ClockTable clocks(*c);
    const causality::Cut cut = earliest_after(*c, clocks, *event);
    std::string stops;
    for (Process p = 0; p < c->processes(); ++p) {
        // A collective that somebody has left before the cut has been entered by all.
        bool enter = false;
        if (cut[p] < c->size(p)) {
            const causality::Index next = c->first(p) + cut[p];
            if (c->event(next).kind == Kind::collective)
                for (const causality::Index member : c->group(next).members)
                    enter = enter || c->id(member).position < cut[c->id(member).process];
        }
        stops += fmt::format("{}{}{}", p > 0 ? "," : "", cut[p], enter ? "+" : "");
    }
    const std::string stopped = options.folder + "/stopped";
    if (::mkdir(stopped.c_str(), 0777) != 0 && errno != EEXIST) return fail_errno("making {}", stopped);
    return run({.job = "replay",
                .folder = options.folder,
                .mpi = options.mpi,
                .variables = {{"CAIRN_MPI_STOP", stops}},
                .command = options.command});
}

Result<> where(const Options& options) {
    const auto record = RecordReader::open(options.folder, 0);
    if (!record) return std::unexpected(record.error());
    const int ranks = (*record)->identity().size;
    nlohmann::json out = nlohmann::json::array();
    std::string text;
    int standing = 0;
    for (int rank = 0; rank < ranks; ++rank) {
        std::ifstream file(fmt::format("{}/stopped/state.{}", options.folder, rank));
        nlohmann::json state = {{"rank", rank}, {"stopped", false}, {"stack", nlohmann::json::array()}};
        for (std::string line; std::getline(file, line);) {
            const std::size_t space = line.find(' ');
            const std::string key = line.substr(0, space), value = line.substr(space + 1);
            if (key == "frame")
                state["stack"].push_back(value);
            else
                state[key] = std::strtoull(value.c_str(), nullptr, 10);
        }
        if (state.contains("pid")) {
            const bool there =
                ::access(fmt::format("/proc/{}", state["pid"].get<std::uint64_t>()).c_str(), F_OK) == 0;
            state["stopped"] = there;
        }
        if (!state["stopped"].get<bool>()) {
            text += fmt::format("rank {}: not stopped\n", rank);
        } else {
            ++standing;
            text += fmt::format("rank {}: event {}{}, gdb -p {}\n", rank, state["event"].get<std::uint64_t>(),
                                state["inside"].get<std::uint64_t>() != 0 ? " (in the call)" : "",
                                state["pid"].get<std::uint64_t>());
            for (const auto& frame : state["stack"]) text += fmt::format("  {}\n", frame.get<std::string>());
        }
        out.push_back(std::move(state));
    }
    fmt::print("{}", options.json ? out.dump() + "\n" : text);
    if (standing < ranks)
        return fail_code(ExitCode::refused, "{} of {} ranks stand at the breakpoint", standing, ranks);
    return {};
}

}  // namespace cairn::mpi::tool
