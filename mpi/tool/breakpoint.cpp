#include "mpi/tool/breakpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "causality/cuts.h"
#include "common/json_text.h"
#include "mpi/record/reader.h"
#include "mpi/record/standing.h"
#include "mpi/tool/launch.h"
#include "mpi/tool/probes.h"
#include "mpi/tool/spot.h"
#include "mpi/tool/stops.h"

namespace cairn::mpi::tool {
namespace {

using causality::Computation;
using causality::Cut;
using causality::Index;
using causality::Process;

// The last event of that call; without a count the first behind `passed` of this process's events.
Result<Index> find(const Computation& c, Process rank, const std::string& at, causality::Position passed) {
    const auto spot = read_spot(at, c, rank);
    if (!spot) return std::unexpected(spot.error());
    std::uint64_t calls = 0, seen = 0;
    for (causality::Position i = 0; i < c.size(rank); ++i) {
        const Index index = c.first(rank) + i;
        if (c.event(index).has(causality::Flag::joined)) continue;
        ++calls;
        if (spot->event != 0 ? calls != spot->event : !spot->places.contains(c.event(index).place)) continue;
        ++seen;
        if (spot->event == 0 && (spot->counted ? seen < spot->count : i < passed)) continue;
        Index last = index;
        while (last + 1 < c.first(rank) + c.size(rank) && c.event(last + 1).has(causality::Flag::joined))
            ++last;
        return last;
    }
    return fail_code(ExitCode::refused,
                     "rank {} has no event {}{} in this record: {} calls, {} of them there", rank, at,
                     passed > 0 ? " behind this one" : "", calls, seen);
}

// What `continue` without --at goes on with.
std::string last_path(const std::string& folder) {
    return folder + "/stopped/at";
}

Result<> write_whole(const std::string& path, const std::string& text) {
    {
        std::ofstream file(path + ".new");
        file << text;
        if (!file.flush()) return fail("writing {}.new: {}", path, std::strerror(errno));
    }
    if (::rename((path + ".new").c_str(), path.c_str()) != 0) return fail_errno("renaming {}.new", path);
    return {};
}

// Each process of the job comes by here, so each writes a name of its own.
Result<> remember(const Options& options) {
    const std::string own = fmt::format("{}.{}", last_path(options.folder), ::getpid());
    CHECK_OK(write_whole(own, fmt::format("{}\n{}\n", options.rank, options.at)));
    if (::rename(own.c_str(), last_path(options.folder).c_str()) != 0) return fail_errno("renaming {}", own);
    return {};
}

}  // namespace

Result<> break_at(const Options& options) {
    const auto record = TRY(RecordReader::open(options.folder, 0));
    const int ranks = record->identity().size;
    if (options.rank < 0 || options.rank >= ranks)
        return fail_code(ExitCode::usage, "--rank {}: the ranks are 0 to {}", options.rank, ranks - 1);
    const auto c = TRY(trace_of_job(options.folder, ranks));
    const auto event = TRY(find(c, static_cast<Process>(options.rank), options.at, 0));
    const causality::ClockTable clocks(c);
    const std::string stops = stops_of(c, with_probes(c, clocks, earliest_after(c, clocks, event)));
    const std::string stopped = options.folder + "/stopped";
    if (::mkdir(stopped.c_str(), 0777) != 0 && errno != EEXIST) return fail_errno("making {}", stopped);
    // Of another run. Nobody of this one waits for them before all have come by here.
    std::error_code ignored;
    for (const auto& each : std::filesystem::directory_iterator(stopped, ignored))
        if (each.path().filename().string().starts_with("next."))
            std::filesystem::remove(each.path(), ignored);
    CHECK_OK(remember(options));
    return run({.job = "replay",
                .folder = options.folder,
                .mpi = options.mpi,
                .variables = {{"CAIRN_MPI_STOP", stops}},
                .command = options.command});
}

namespace {

// Until all have come to the next breakpoint, or one of them has ended.
Result<> wait_until_all_stand(const Options& options, int ranks, std::uint64_t stop) {
    std::vector<std::uint64_t> pids;
    for (int rank = 0; rank < ranks; ++rank) pids.push_back(standing(options.folder, rank).pid);
    for (;;) {
        int there = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            const Standing state = standing(options.folder, rank);
            auto& pid = pids[static_cast<std::size_t>(rank)];
            if (state.pid != 0) pid = state.pid;
            if (state.there && state.stop >= stop) ++there;
            if (pid != 0 && ::access(fmt::format("/proc/{}", pid).c_str(), F_OK) != 0)
                return fail_code(ExitCode::refused,
                                 "rank {} has ended before all stood at the next breakpoint", rank);
        }
        if (there == ranks) return where(options);
        const timespec moment{.tv_sec = 0, .tv_nsec = 20'000'000};
        ::nanosleep(&moment, nullptr);
    }
}

}  // namespace

Result<> go_on(const Options& options) {
    const auto record = TRY(RecordReader::open(options.folder, 0));
    const int ranks = record->identity().size;
    Cut now;
    std::uint64_t stop = 0;
    for (int rank = 0; rank < ranks; ++rank) {
        const Standing state = standing(options.folder, rank);
        if (!state.there || (rank > 0 && state.stop != stop))
            return fail_code(ExitCode::refused,
                             "rank {} doesn't stand at the breakpoint (yet?): see `cairn mpi where {}`", rank,
                             options.folder);
        stop = state.stop;
        now.push_back(static_cast<causality::Position>(state.position));
    }
    Options at = options;
    if (options.at.empty()) {
        std::ifstream file(last_path(options.folder));
        std::string rank;
        if (!std::getline(file, rank) || !std::getline(file, at.at))
            return fail("{} can't be read: say --rank and --at", last_path(options.folder));
        at.rank = std::atoi(rank.c_str());
    }
    if (at.rank >= ranks)
        return fail_code(ExitCode::usage, "--rank {}: the ranks are 0 to {}", at.rank, ranks - 1);
    const std::string next = fmt::format("{}/stopped/next.{}", options.folder, stop);
    const auto to_the_end = [&] {
        std::string stops;
        for (int rank = 0; rank < ranks; ++rank)
            stops += fmt::format("{}{}", rank > 0 ? "," : "", std::numeric_limits<std::uint64_t>::max());
        return write_whole(next, stops + "\n");
    };
    if (options.end) return to_the_end();
    const auto c = TRY(trace_of_job(options.folder, ranks));
    if (options.at.empty())
        // Its next pass, whichever it was.
        if (const auto spot = read_spot(at.at, c, static_cast<Process>(at.rank)); spot && spot->counted)
            at.at = spot->name;
    const auto process = static_cast<Process>(at.rank);
    const auto event = TRY(find(c, process, at.at, now[process]));
    if (c.id(event).position < now[process])
        return fail_code(ExitCode::refused, "rank {} is behind event {} already", at.rank, at.at);
    CHECK_OK(remember(at));
    const causality::ClockTable clocks(c);
    // Joined with where they stand: a state that is consistent, too.
    const Cut cut = with_probes(c, clocks, causality::join(now, earliest_after(c, clocks, event)));
    CHECK_OK(write_whole(next, stops_of(c, cut) + "\n"));
    return options.no_wait ? Result<>() : wait_until_all_stand(options, ranks, stop + 1);
}

Result<> where(const Options& options) {
    const auto record = TRY(RecordReader::open(options.folder, 0));
    const int ranks = record->identity().size;
    nlohmann::json out = nlohmann::json::array();
    int standing_there = 0;
    for (int rank = 0; rank < ranks; ++rank) {
        const Standing state = standing(options.folder, rank);
        out.push_back({{"rank", rank}, {"stopped", state.there}, {"stack", state.stack}});
        if (state.pid != 0)
            out.back().update({{"pid", state.pid},
                               {"event", state.event},
                               {"position", state.position},
                               {"inside", state.inside},
                               {"stop", state.stop}});
        standing_there += state.there ? 1 : 0;
    }
    const std::string text = where_all_stand(options.folder, ranks);
    fmt::print("{}", options.json ? json_text(out) + "\n" : printable_lines(text));
    if (standing_there < ranks)
        return fail_code(ExitCode::refused, "{} of {} ranks stand at the breakpoint", standing_there, ranks);
    return {};
}

}  // namespace cairn::mpi::tool
