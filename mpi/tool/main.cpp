// cairn-mpi: `cairn mpi VERB`.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "causality/lint/lint.h"
#include "common/human.h"
#include "common/json_text.h"
#include "common/verb_options.h"
#include "mpi/debug/console.h"
#include "mpi/debug/dap/session.h"
#include "mpi/debug/trim.h"
#include "mpi/record/heard.h"
#include "mpi/record/predictor.h"
#include "mpi/record/reader.h"
#include "mpi/tool/breakpoint.h"
#include "mpi/tool/launch.h"
#include "mpi/tool/options.h"
#include "mpi/tool/recovery_line.h"

namespace cairn::mpi::tool {
namespace {

// Each process of the job comes by here; the first makes the folder.
Result<> make_folder(const std::string& folder, const char* what = "record", bool forced = false) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) return fail("making {}: {}", folder, failed.message());
    // Each process has removed its own part.
    if (forced) return {};
    const std::string first = std::string(what) == "record" ? record_path(folder, 0) : folder + "/trace.0";
    if (::access(first.c_str(), F_OK) == 0)
        return fail_code(ExitCode::refused, "{} has a {} already: give another folder, or {}", folder, what,
                         std::string(what) == "record" ? "--force to do without it" : "remove it");
    return {};
}

// The number that mpiexec has given this process, or of how many; -1 if it isn't started by one.
long given_by_mpiexec(const char* mpich, const char* openmpi) {
    for (const char* name : {mpich, openmpi})
        if (const char* value = std::getenv(name); value != nullptr) return std::strtol(value, nullptr, 10);
    return -1;
}

// A record that is there goes, with its traces and breakpoints. Around mpiexec all of it; as one process of a
// job its own part, since others may have begun theirs, and the first of them what a larger job has left.
Result<> remove_record(const std::string& folder) {
    const long rank = given_by_mpiexec("PMI_RANK", "OMPI_COMM_WORLD_RANK");
    const long size = given_by_mpiexec("PMI_SIZE", "OMPI_COMM_WORLD_SIZE");
    std::error_code failed;
    if (!std::filesystem::is_directory(folder, failed)) return {};
    for (const auto& each : std::filesystem::directory_iterator(folder, failed)) {
        const std::string name = each.path().filename().string();
        const std::size_t dot = name.find('.');
        const std::string kind = name.substr(0, dot),
                          number = dot == std::string::npos ? "" : name.substr(dot + 1);
        const bool ours = kind == "rank" || kind == "tail" || kind == "trace";
        if (ours && !number.empty() && number.find_first_not_of("0123456789") == std::string::npos) {
            const long whose = std::strtol(number.c_str(), nullptr, 10);
            if (rank >= 0 && whose != rank && !(rank == 0 && size > 0 && whose >= size)) continue;
            std::filesystem::remove(each.path(), failed);
        } else if (name == "beginning" && rank <= 0) {
            std::filesystem::remove(each.path(), failed);
        } else if ((name == "stopped" || name == "debug" || name == "live" || name == "kept") && rank <= 0) {
            std::filesystem::remove_all(each.path(), failed);
        }
        if (failed) return fail("removing {}: {}", each.path().string(), failed.message());
    }
    return {};
}

Result<> record(const Options& options) {
    if (options.force) CHECK_OK(remove_record(options.folder));
    CHECK_OK(make_folder(options.folder, "record", options.force));
    Launch launch{.job = "record",
                  .folder = options.folder,
                  .mpi = options.mpi,
                  .variables = {{"CAIRN_MPI_CLOCK", options.clock ? "1" : ""}},
                  .command = options.command};
    const bool checkpoints = !options.checkpoints_of.empty();
    launch.variables.emplace_back("CAIRN_MPI_CONTENTS", options.contents || checkpoints ? "1" : "");
    if (checkpoints) {
        CHECK_OK(make_folder(options.folder, "trace", options.force));
        launch.variables.emplace_back("CAIRN_MPI_TRACE", options.folder);
        launch.variables.emplace_back("CAIRN_MPI_CHECKPOINTS", checkpoint_wish(options).value_or(""));
    }
    return run(std::move(launch));
}

// One process, as its own job. The MPI of the record, since the program may be an interpreter.
Result<> replay_alone(const Options& options, const Identity& identity) {
    if (options.rank >= identity.size)
        return fail_code(ExitCode::usage, "--rank {}: the ranks are 0 to {}", options.rank,
                         identity.size - 1);
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
        if (const char* value = std::getenv(name); value != nullptr)
            return fail_code(ExitCode::usage, "a rank that is replayed alone is started without mpiexec");
    return run({.job = "replay",
                .folder = options.folder,
                .mpi = options.mpi.empty() ? identity.mpi : options.mpi,
                // Open MPI would start a daemon for processes that may be spawned.
                .variables = {{"CAIRN_MPI_ALONE", std::to_string(options.rank)},
                              {"OMPI_MCA_ess_singleton_isolated", "1"}},
                .command = options.command,
                .gdb = options.gdb});
}

Result<> replay(const Options& options) {
    const auto first = TRY(RecordReader::open(options.folder, 0));
    if (options.rank >= 0) return replay_alone(options, first->identity());
    Launch launch{.job = "replay",
                  .folder = options.folder,
                  .mpi = options.mpi,
                  .variables = {},
                  .command = options.command};
    if (!options.trace.empty()) {
        CHECK_OK(make_folder(options.trace, "trace"));
        launch.variables.emplace_back("CAIRN_MPI_TRACE", options.trace);
    }
    if (options.wait) launch.variables.emplace_back("CAIRN_MPI_DEPARTED", "wait");
    return run(std::move(launch));
}

Result<> trace(const Options& options) {
    CHECK_OK(make_folder(options.folder, "trace"));
    return run({.job = "nothing",
                .folder = "",
                .mpi = options.mpi,
                .variables = {{"CAIRN_MPI_TRACE", options.folder}},
                .command = options.command});
}

Result<> check_places(const Options& options) {
    const std::size_t colon = options.at.find(':');
    if (options.at.find(' ') != std::string::npos ||
        (colon != std::string::npos && (colon == 0 || std::atoi(options.at.c_str() + colon + 1) < 1)))
        return fail_code(ExitCode::usage, "--at {}: FILE:LINE or FUNCTION", options.at);
    CHECK_OK(make_folder(options.folder, "trace"));
    return run(
        {.job = "nothing",
         .folder = "",
         .mpi = options.mpi,
         .variables = {{"CAIRN_MPI_TRACE", options.folder},
                       {"CAIRN_MPI_PLACE", fmt::format("{} {} {}", options.before ? "before" : "behind",
                                                       options.at, options.patience)}},
         .command = options.command});
}

Result<> check(const Options& options) {
    const auto first = TRY(RecordReader::open(options.folder, 0));
    const Identity identity = first->identity();
    nlohmann::json out = {{"ranks", identity.size},      {"mpi", identity.mpi},
                          {"program", identity.program}, {"arguments", identity.arguments},
                          {"build", identity.build},     {"contents", identity.contents},
                          {"clock", identity.clock}};
    std::uint64_t events = 0, bytes = 0, order = 0;
    bool whole = true;
    std::string breaks_off;
    std::uint64_t by_column[columns] = {};
    std::vector<std::string> remarks;
    for (int rank = 0; rank < identity.size; ++rank) {
        const auto reader = TRY(RecordReader::open(options.folder, rank));
        if (reader->identity().job != identity.job)
            return fail_code(ExitCode::damaged, "{} is of another record than {}",
                             record_path(options.folder, rank), record_path(options.folder, 0));
        events += reader->begun();
        // As the program has printed it.
        const auto its_order = reader->closed() ? reader->next(Column::order) : std::nullopt;
        order = mix(order, its_order.value_or(0));
        if (!reader->closed()) {
            whole = false;
            breaks_off +=
                fmt::format("{}rank {}'s at event {}", breaks_off.empty() ? "" : ", ", rank, reader->begun());
        }
        bytes += reader->file_bytes();
        for (std::size_t i = 0; i < columns; ++i)
            by_column[i] += reader->packed_bytes(static_cast<Column>(i));
        for (const std::string& remark : reader->remarks())
            remarks.push_back(fmt::format("rank {}: {}", rank, remark));
        while (const auto note = reader->next_bytes(Column::notes))
            remarks.push_back(fmt::format("rank {}: {}", rank, *note));
    }
    out["events"] = events;
    out["bytes"] = bytes;
    out["remarks"] = remarks;
    out["whole"] = whole;
    if (whole) out["order"] = fmt::format("{:016x}", order);
    for (std::size_t i = 0; i < columns; ++i) out["columns"][name(static_cast<Column>(i))] = by_column[i];
    if (options.json) {
        fmt::print("{}\n", json_text(out));
        return {};
    }
    fmt::print("{} ranks of {} ({}): {} events, {} bytes\n  {}\n", identity.size, printable(identity.program),
               identity.mpi, events, bytes, identity.arguments);
    if (whole)
        fmt::print("  whole: each rank came to its end; order {:016x}\n", order);
    else
        fmt::print("  not whole, it breaks off: {}\n", breaks_off);
    for (std::size_t i = 0; i < columns; ++i)
        if (by_column[i] > 0)
            fmt::print("  {:<13}{:>10} bytes\n", name(static_cast<Column>(i)), by_column[i]);
    for (const std::string& remark : remarks) fmt::print("  {}\n", printable(remark));
    return {};
}

Result<> lint(const Options& options) {
    std::vector<std::string> traces;
    for (;;) {
        std::string next = fmt::format("{}/trace.{}", options.folder, traces.size());
        if (::access(next.c_str(), F_OK) != 0) break;
        traces.push_back(std::move(next));
    }
    if (traces.empty())
        return fail_code(
            ExitCode::usage,
            "{} has no trace.0: `cairn mpi trace --out DIR PROGRAM` writes one, and of a record `cairn "
            "mpi replay --trace DIR RECORD PROGRAM`",
            options.folder);
    return causality::lint_and_print(traces, options.json);
}

Result<> run_verb(std::span<char* const> words) {
    if (const auto verb = asks_help(words)) {
        std::fputs(help(*verb).c_str(), stdout);
        return {};
    }
    const auto options = TRY(read_options(words));
    if (options.verb == "record") return record(options);
    if (options.verb == "replay") return replay(options);
    if (options.verb == "trace") return trace(options);
    if (options.verb == "break") return break_at(options);
    if (options.verb == "continue") return go_on(options);
    if (options.verb == "where") return where(options);
    if (options.verb == "debug")
        return options.dap ? debug::dap::debug_for_editor(options) : debug::debug(options);
    if (options.verb == "trim") return debug::trim(options);
    if (options.verb == "check-places") return check_places(options);
    if (options.verb == "recovery-line") return recovery_line(options);
    if (options.verb == "check") return check(options);
    if (options.verb == "lint") return lint(options);
    return run(
        {.job = "nothing", .folder = "", .mpi = options.mpi, .variables = {}, .command = options.command});
}

}  // namespace
}  // namespace cairn::mpi::tool

int main(int argc, char** argv) {
    try {
        const auto done =
            cairn::mpi::tool::run_verb(std::span<char* const>(argv + 1, argc > 1 ? argv + argc : argv + 1));
        if (done) return 0;
        if (cairn::mpi::is_first_to_say(done.error().what)) {
            fmt::print(stderr, "cairn mpi: {}\n", cairn::printable_lines(done.error().what));
            cairn::mpi::wait_until_heard();
        }
        cairn::mpi::stay_for_the_others();
        return static_cast<int>(done.error().code);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "cairn mpi: {}\n", cairn::printable_lines(problem.what()));
        return static_cast<int>(cairn::ExitCode::failed);
    }
}
