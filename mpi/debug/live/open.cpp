#include "mpi/debug/live/open.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "mpi/debug/traces.h"
#include "mpi/record/reader.h"
#include "mpi/tool/stops.h"

namespace cairn::mpi::debug::live {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> replay_words(const tool::Options& options, const std::string& trace) {
    std::vector<std::string> words{"mpi", "replay"};
    if (!trace.empty()) words.insert(words.end(), {"--trace", trace});
    if (!options.mpi.empty()) words.insert(words.end(), {"--mpi", options.mpi});
    words.push_back(options.folder);
    words.insert(words.end(), options.command.begin(), options.command.end());
    return words;
}

// The trace, for which the job is replayed once: kept in DIR/live for the next time.
Result<> make_trace(const tool::Options& options, int ranks, Job& job,
                    const std::function<void(const std::string&)>& note) {
    const std::string folder = options.folder + "/live", mark_path = folder + "/of";
    const std::string mark = TRY(mark_of(options.folder, ranks));
    std::ifstream kept(mark_path);
    if (std::string((std::istreambuf_iterator<char>(kept)), {}) == mark) return {};
    note("replaying the job once for its trace");
    std::error_code failed;
    fs::remove(mark_path, failed);
    for (int rank = 0; rank < ranks; ++rank) fs::remove(fmt::format("{}/trace.{}", folder, rank), failed);
    std::vector<std::string> words = replay_words(options, folder);
    words.insert(words.begin(), "cairn");
    if (auto done = job.run_once(words); !done) return done;
    std::ofstream file(mark_path);
    file << mark;
    if (!file.flush()) return fail_errno("writing {}", mark_path);
    return {};
}

// What debuggers have left that were killed.
void remove_left_over(const std::string& folder) {
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator(folder, ignored)) {
        const std::string name = each.path().filename().string();
        if (name.starts_with("job-") && ::kill(std::atoi(name.c_str() + 4), 0) != 0 && errno == ESRCH)
            fs::remove_all(each.path(), ignored);
    }
}

}  // namespace

Result<std::unique_ptr<OpenedJob>> OpenedJob::open(const tool::Options& options, const Show& show,
                                                   const std::function<void(const std::string&)>& note) {
    const auto record = TRY(RecordReader::open(options.folder, 0));
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
        if (std::getenv(name) != nullptr)
            return fail_code(ExitCode::usage,
                             "the debugger starts mpiexec by itself: cairn mpi debug --live DIR mpiexec ...");
    if (std::getenv("CAIRN_REGION") != nullptr)
        return fail_code(ExitCode::usage,
                         "--live: this debugger is itself in a session of cairn's, and the job would be in "
                         "another one: start it outside");
    auto opened = std::unique_ptr<OpenedJob>(new OpenedJob);
    opened->identity_ = record->identity();
    opened->bounds_ = {.back_within = options.back_within,
                       .checkpoints = options.checkpoints,
                       .every = options.every,
                       .memory = 0};
    const int ranks = opened->identity_.size;
    opened->scratch_ = std::make_unique<Scratch>(0);
    std::error_code failed;
    fs::create_directories(options.folder + "/live", failed);
    if (failed) return fail("making {}/live: {}", options.folder, failed.message());
    remove_left_over(options.folder + "/live");
    opened->job_ = std::make_unique<Job>(
        opened->scratch_->path(), fmt::format("{}/live/job-{}", options.folder, ::getpid()), ranks, show);
    CHECK_OK(make_trace(options, ranks, *opened->job_, note));
    opened->computation_ =
        std::make_unique<const Computation>(TRY(tool::trace_of_job(options.folder + "/live", ranks)));
    CHECK_OK(opened->job_->start(replay_words(options, "")));
    opened->world_ = std::make_unique<LiveWorld>(
        *opened->computation_, opened->bounds_, *opened->job_,
        [show](const std::string& text) { show(-1, true, fmt::format("cairn mpi: {}\n", text)); });
    return opened;
}

}  // namespace cairn::mpi::debug::live
