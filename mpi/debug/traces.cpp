#include "mpi/debug/traces.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "causality/trace_reader.h"
#include "mpi/record/reader.h"
#include "mpi/tool/program_trace.h"
#include "mpi/tool/recovery_line.h"

namespace cairn::mpi::debug {
namespace {

namespace fs = std::filesystem;

std::string contents_of(const std::string& path) {
    std::ifstream file(path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
}

Result<pid_t> begin(const std::string& traces, const tool::Launch& launch, int rank) {
    const std::string errors = fmt::format("{}/errors.{}", traces, rank);
    const pid_t parent = ::getpid(), pid = ::fork();
    if (pid < 0) return fail_errno("starting rank {}", rank);
    if (pid > 0) return pid;
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != parent) ::_exit(0);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const int file = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    tool::Launch mine = alone(launch, rank);
    mine.variables.emplace_back("CAIRN_MPI_TRACE", traces);
    const auto failed = tool::run(std::move(mine));
    if (!failed) fmt::print(stderr, "cairn mpi: {}\n", failed.error().what);
    std::fflush(stderr);
    ::_exit(static_cast<int>(ExitCode::failed));
}

// What it has said of itself; its program may have printed something as well.
std::string said_by(const std::string& traces, int rank) {
    std::string said;
    std::ifstream file(fmt::format("{}/errors.{}", traces, rank));
    for (std::string line; std::getline(file, line);)
        if ((line.starts_with("cairn mpi: rank ") && line.find(": the record: ") == std::string::npos) ||
            line.starts_with("  "))
            said += line + "\n";
    return said;
}

Result<> make(const std::string& traces, int ranks, const tool::Launch& launch, std::string& notes) {
    std::map<pid_t, int> running;
    const unsigned most = std::max(1U, std::thread::hardware_concurrency());
    std::string refused;
    const auto wait_for_one = [&] {
        int status = 0;
        const pid_t pid = ::waitpid(-1, &status, 0);
        const auto found = running.find(pid);
        if (found == running.end()) return;
        const int rank = found->second;
        running.erase(found);
        if (status == 0) return;
        const std::string said = said_by(traces, rank);
        if (::access(fmt::format("{}/trace.{}", traces, rank).c_str(), F_OK) != 0)
            refused += said.empty() ? fmt::format("rank {} doesn't begin\n", rank) : said;
        else if (WIFSIGNALED(status))
            notes += fmt::format("rank {} ends with signal {} ({})\n", rank, WTERMSIG(status),
                                 ::strsignal(WTERMSIG(status)));
        else
            notes += said;
    };
    for (int rank = 0; rank < ranks && refused.empty(); ++rank) {
        while (running.size() >= most) wait_for_one();
        const pid_t pid = TRY(begin(traces, launch, rank));
        running.emplace(pid, rank);
    }
    while (!running.empty()) wait_for_one();
    for (int rank = 0; rank < ranks; ++rank) {
        std::error_code ignored;
        fs::remove(fmt::format("{}/errors.{}", traces, rank), ignored);
    }
    // Each rank says the same of a record that isn't its program's.
    if (!refused.empty()) return fail_code(ExitCode::refused, "{}", refused.substr(0, refused.find('\n')));
    return {};
}

}  // namespace

Result<std::string> mark_of(const std::string& folder, int ranks) {
    std::string mark = "cairn mpi debug 1\n";
    for (int rank = 0; rank < ranks; ++rank) {
        const auto reader = TRY(RecordReader::open(folder, rank));
        mark += fmt::format("{:016x} {} {} {}\n", reader->identity().job, rank, reader->begun(),
                            reader->file_bytes());
    }
    return mark;
}

tool::Launch alone(const tool::Launch& launch, int rank) {
    tool::Launch mine = launch;
    // Whoever ends takes the common folder away, if it is empty, also under one who is just beginning.
    for (auto& [key, value] : mine.variables)
        if (key == openmpi_folder && !value.empty()) value += fmt::format("/{}", rank);
    mine.variables.emplace_back("CAIRN_MPI_ALONE", std::to_string(rank));
    return mine;
}

Result<causality::Computation> trace_of(const std::string& folder, const Identity& identity,
                                        const tool::Launch& launch, std::string& notes) {
    const std::string traces = folder + "/debug", mark_path = traces + "/of";
    const std::string mark = TRY(mark_of(folder, identity.size));
    const std::string kept = contents_of(mark_path);
    if (kept.starts_with(mark)) {
        notes += kept.substr(mark.size());
    } else {
        std::error_code failed;
        fs::remove_all(traces, failed);
        fs::create_directory(traces, failed);
        if (failed) return fail("making {}: {}", traces, failed.message());
        if (auto made = make(traces, identity.size, launch, notes); !made) {
            fs::remove_all(traces, failed);
            return std::unexpected(std::move(made).error());
        }
        std::ofstream file(mark_path);
        file << mark << notes;
        if (!file.flush()) return fail("writing {}: {}", mark_path, std::strerror(errno));
    }
    std::vector<std::string> files;
    for (int rank = 0; rank < identity.size; ++rank)
        files.push_back(fmt::format("{}/trace.{}", traces, rank));
    const auto source = TRY(causality::TraceReader::open(files));
    return causality::Computation::load(*source);
}

Result<causality::Computation> recorded_trace_of(const std::string& folder, int ranks) {
    return tool::trace_with_checkpoints(
        folder, [&](std::unique_ptr<causality::TraceSource> source) -> Result<causality::Computation> {
            // What the trace has is in the record, which is written before it and read behind it, but where
            // the job was killed.
            std::vector<std::uint64_t> calls;
            for (int rank = 0; rank < ranks; ++rank)
                calls.push_back(TRY(RecordReader::open(folder, rank))->begun());
            if (source->processes() != calls.size())
                return fail_code(ExitCode::damaged, "{}: the trace is of {} processes, and the record of {}",
                                 folder, source->processes(), calls.size());
            tool::ProgramTrace program(std::move(source), std::move(calls));
            return causality::Computation::load(program);
        });
}

}  // namespace cairn::mpi::debug
