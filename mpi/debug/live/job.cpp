#include "mpi/debug/live/job.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "common/layout.h"

namespace cairn::mpi::debug::live {

namespace fs = std::filesystem;

namespace {

constexpr const char* session = "job";

std::uint64_t size_of(const std::string& path) {
    std::error_code failed;
    const std::uint64_t size = fs::file_size(path, failed);
    return failed ? 0 : size;
}

std::uint64_t bytes_in(const std::string& folder) {
    std::uint64_t bytes = 0;
    std::error_code failed;
    for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
        if (at->is_regular_file(failed)) bytes += size_of(at->path().string());
    return bytes;
}

std::string from(const std::string& path, std::uint64_t begin) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(begin));
    return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::string said_of(int status) {
    if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
    return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

Job::Job(std::string scratch, std::string disk, int ranks, Show show)
    : tools_(std::move(scratch)), disk_(std::move(disk)), ranks_(ranks), show_(std::move(show)) {
    std::error_code ignored;
    fs::create_directories(tools_.scratch() + "/stopped", ignored);
    // It holds all that the programs had in memory.
    if (fs::create_directories(disk_, ignored)) fs::permissions(disk_, fs::perms::owner_all, ignored);
}

Job::~Job() {
    end();
    if (coordinator_ > 0 && !over(coordinator_)) end_tool(coordinator_);
    reap();
    std::error_code ignored;
    fs::remove_all(disk_, ignored);
}

std::string Job::path_of(Stream stream) const {
    return tools_.scratch() + (stream == output ? "/output" : "/errors");
}

// Whoever has no other parent any more is this process's child.
void Job::reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) ended_[pid] = status;
}

bool Job::over(pid_t pid) {
    reap();
    return ended_.contains(pid);
}

Result<> Job::run_tool(const std::vector<std::string>& words, const std::string& log) {
    const pid_t tool = TRY(tools_.start(words, log));
    while (!over(tool)) ::poll(nullptr, 0, 2);
    if (ended_[tool] == 0) return {};
    return fail_code(ExitCode::refused, "{}", tools_.said_in(log));
}

Result<> Job::run_once(const std::vector<std::string>& words) {
    const pid_t tool = TRY(tools_.start(words, {.output = path_of(output), .errors = path_of(errors), .environment = {}}));
    main_ = tool;
    while (!over(tool)) {
        if (interrupted != 0) {
            ::kill(-tool, SIGTERM);
            return fail_code(ExitCode::refused, "interrupted");
        }
        ::poll(nullptr, 0, 5);
    }
    main_ = -1;
    const int status = ended_[tool];
    if (status == 0) return {};
    return fail_code(ExitCode::refused, "the job ends with {}: {}", said_of(status), last_words());
}

std::string Job::last_words() const {
    std::string last, line;
    // What mpiexec says of how its ranks ended comes behind what they have said themselves.
    for (std::ifstream file(path_of(errors)); std::getline(file, line);)
        if (line.starts_with("cairn mpi: ") || last.empty()) last = line;
    return last.empty() ? "it has said nothing" : last;
}

Result<> Job::start(const std::vector<std::string>& words) {
    coordinator_ = TRY(tools_.coordinator(session, disk_));
    std::vector<std::string> all{"cairn", "launch", "--session", session, "--", own_program("cairn")};
    all.insert(all.end(), words.begin(), words.end());
    std::string beginning;
    for (int rank = 0; rank < ranks_; ++rank) beginning += rank > 0 ? ",0" : "0";
    main_ = TRY(tools_.start(
        all, {.output = path_of(output),
              .errors = path_of(errors),
              .environment = {{"CAIRN_MPI_STOP", beginning}, {"CAIRN_MPI_STANDS_IN", tools_.scratch()}}}));
    stop_ = 1;
    return wait_until_all_stand();
}

Standing Job::standing(int rank) const {
    return mpi::standing(tools_.scratch(), rank);
}

Result<> Job::wait_until_all_stand() {
    for (int rank = 0;;) {
        while (rank < ranks_) {
            const Standing state = standing(rank);
            if (!state.there || state.stop != stop_) break;
            ++rank;
        }
        if (rank == ranks_) break;
        show_output(false);
        if (main_ < 0 || over(main_)) {
            const std::string how = main_ < 0 ? "by itself" : "with " + said_of(ended_[main_]);
            main_ = -1;
            show_output(true);
            return fail_code(ExitCode::refused, "the job ends {} before all stand there: {}", how, last_words());
        }
        if (interrupted != 0) return fail_code(ExitCode::refused, "interrupted");
        ::poll(nullptr, 0, 2);
    }
    show_output(false);
    return {};
}

Result<> Job::run_to(const std::string& stops) {
    const std::string next = fmt::format("{}/stopped/next.{}", tools_.scratch(), stop_), whole = next + ".new";
    {
        std::ofstream file(whole);
        file << stops << "\n";
        if (!file.flush()) return fail_errno("writing {}", whole);
    }
    if (::rename(whole.c_str(), next.c_str()) != 0) return fail_errno("renaming {}", whole);
    ++stop_;
    return wait_until_all_stand();
}

Result<Job::Checkpoint> Job::save() {
    Checkpoint checkpoint{.folder = fmt::format("{}/{}", disk_, ++saved_),
                          .stop = stop_,
                          .written = {size_of(path_of(output)), size_of(path_of(errors))}};
    const auto began = std::chrono::steady_clock::now();
    std::error_code failed;
    fs::create_directory(checkpoint.folder, failed);
    if (failed) return fail("making {}: {}", checkpoint.folder, failed.message());
    if (auto done = run_tool({"cairn", "checkpoint", "--session", session, "--quiet", "--ckptdir",
                              checkpoint.folder},
                             "checkpoint");
        !done) {
        remove(checkpoint);
        return std::unexpected(std::move(done).error());
    }
    checkpoint.bytes = bytes_in(checkpoint.folder);
    checkpoint.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return checkpoint;
}

void Job::remove(const Checkpoint& checkpoint) const {
    std::error_code ignored;
    fs::remove_all(checkpoint.folder, ignored);
}

void Job::forget_stops() const {
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator(tools_.scratch() + "/stopped", ignored))
        fs::remove(each.path(), ignored);
}

// Ids that nobody has any more can be had again, so all are waited for.
void Job::end() {
    if (main_ < 0) return;
    if (coordinator_ > 0)
        static_cast<void>(run_tool({"cairn", "kill", "--session", session}, "kill"));
    else
        ::kill(main_, SIGKILL);
    for (int i = 0; i < 5'000 && !over(main_); ++i) ::poll(nullptr, 0, 2);
    main_ = -1;
}

Result<> Job::bring_back(const Checkpoint& checkpoint) {
    end();
    show_output(true);
    forget_stops();
    // What is printed from there on has been shown.
    for (const Stream stream : {output, errors}) {
        Seen& seen = seen_[stream];
        const std::uint64_t before = checkpoint.written[stream];
        const std::string text = from(path_of(stream), before);
        for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
            seen.again.insert(text.substr(begin, end - begin));
        if (::truncate(path_of(stream).c_str(), static_cast<off_t>(before)) != 0)
            return fail_errno("cutting off {}", path_of(stream));
        seen.bytes = before;
        seen.rest.clear();
    }
    main_ = TRY(tools_.start({"cairn", "restart", "--quiet", "--session", session, "--files", "use", checkpoint.folder},
                             "restart"));
    stop_ = checkpoint.stop;
    auto there = wait_until_all_stand();
    if (!there && main_ < 0) return fail("{}: {}", checkpoint.folder, tools_.said_in("restart"));
    return there;
}

void Job::show_line(Stream stream, const std::string& line) {
    auto& again = seen_[stream].again;
    if (const auto found = again.find(line); found != again.end())
        again.erase(found);
    else
        show_(-1, stream == errors, line + "\n");
}

// `all`: what has no end of a line, too.
void Job::show_output(bool all) {
    for (const Stream stream : {output, errors}) {
        Seen& seen = seen_[stream];
        if (size_of(path_of(stream)) > seen.bytes) {
            const std::string text = from(path_of(stream), seen.bytes);
            seen.bytes += text.size();
            seen.rest += text;
        }
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = seen.rest.find('\n', begin)) != std::string::npos; begin = end + 1)
            show_line(stream, seen.rest.substr(begin, end - begin));
        seen.rest.erase(0, begin);
        if (all && !seen.rest.empty()) show_line(stream, std::exchange(seen.rest, ""));
    }
}

}  // namespace cairn::mpi::debug::live
