#include "mpi/debug/live/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/fd.h"
#include "common/layout.h"
#include "mpi/debug/traces.h"

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

// Below those that the kernel chooses (ip_local_port_range of ip(7) begins at 32768), and most likely nobody
// else's.
std::string own_ports() {
    constexpr int first = 10'240, last = 30'000, each = 32;
    return std::to_string(first + ::getpid() * each % (last - first));
}

std::int64_t milliseconds_now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string said_of(int status) {
    if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
    return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

Job::Job(std::string scratch, std::string disk, int ranks, Show show)
    : tools_(std::move(scratch)), disk_(std::move(disk)), ranks_(ranks), show_(std::move(show)) {
    std::error_code ignored;
    for (const char* name : {"/stopped", "/left", "/mpirun"})
        fs::create_directories(tools_.scratch() + name, ignored);
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

// An id may have been another one's before.
pid_t Job::begun(pid_t pid) {
    ended_.erase(pid);
    return pid;
}

Result<> Job::run_tool(const std::vector<std::string>& words, const std::string& log) {
    const pid_t started = TRY(tools_.start(words, log));
    const pid_t tool = begun(started);
    while (!over(tool)) ::poll(nullptr, 0, 2);
    if (ended_[tool] == 0) return {};
    return fail_code(ExitCode::refused, "{}", tools_.said_in(log));
}

Result<> Job::run_once(const std::vector<std::string>& words) {
    const std::string log = tools_.scratch() + "/once";
    const pid_t started =
        TRY(tools_.start(words, {.output = log + ".output", .errors = log, .environment = {}}));
    const pid_t tool = main_ = begun(started);
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
    return fail_code(ExitCode::refused, "the job ends with {}: {}", said_of(status), last_words(log));
}

std::string Job::last_words(const std::string& log) {
    std::string last, line;
    // What mpiexec says of how its ranks ended comes behind what they have said themselves.
    for (std::ifstream file(log); std::getline(file, line);)
        if (line.starts_with("cairn mpi: ") || last.empty()) last = line;
    return last.empty() ? "it has said nothing" : last;
}

Result<> Job::start(const std::vector<std::string>& words) {
    coordinator_ = TRY(tools_.coordinator(session, disk_));
    std::vector<std::string> all{"cairn", "launch", "--session", session, "--", own_program("cairn")};
    all.insert(all.end(), words.begin(), words.end());
    std::string beginning;
    for (int rank = 0; rank < ranks_; ++rank) beginning += rank > 0 ? ",0" : "0";
    main_ = TRY(tools_.start(all, {.output = path_of(output),
                                   .errors = path_of(errors),
                                   .environment = {{"CAIRN_MPI_STOP", beginning},
                                                   {"CAIRN_MPI_STANDS_IN", tools_.scratch()},
                                                   {openmpi_folder, mpirun_folder()},
                                                   // Every job would listen from port 1024 on, and another
                                                   // one have this one's when it is to come back.
                                                   {"OMPI_MCA_btl_tcp_port_min_v4", own_ports()},
                                                   {"OMPI_MCA_btl_tcp_port_min_v6", own_ports()}}}));
    begun(main_);
    stop_ = 1;
    cut_.assign(static_cast<std::size_t>(ranks_), 0);
    return error_of(wait_until_all_stand());
}

Whereabouts Job::whereabouts(int rank) const {
    Whereabouts here;
    std::ifstream file(whereabouts_path(tools_.scratch(), rank), std::ios::binary);
    file.read(reinterpret_cast<char*>(&here), sizeof here);
    return here;
}

Standing Job::standing(int rank) const {
    Standing state = mpi::standing(tools_.scratch(), rank);
    state.there = state.stop != 0;
    const Fd file(::open(whereabouts_path(tools_.scratch(), rank).c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    const bool held = file && ::fcntl(file.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    state.pid = held && lock.l_pid > 0 ? static_cast<std::uint64_t>(lock.l_pid) : 0;
    if (state.there) return state;
    const Whereabouts here = whereabouts(rank);
    state.position = here.position;
    state.stack = {here.inside};
    return state;
}

// Whoever has been let go on from where it was to stand may wait in a call that is no event.
bool Job::stands(int rank) const {
    if (mpi::standing(tools_.scratch(), rank).stop == stop_) return true;
    const auto which = static_cast<std::size_t>(rank);
    if (!released_.contains(rank)) return false;
    const Whereabouts here = whereabouts(rank);
    return here.inside[0] != 0 && here.position == cut_[which];
}

// Of those that don't stand, in milliseconds; 0 if none of them is in a call that is no event, in which it
// could wait for somebody who stands.
std::int64_t Job::nobody_has_moved_for() {
    std::vector<Whereabouts> now;
    bool in_no_event = false;
    for (int rank = 0; rank < ranks_; ++rank) {
        if (stands(rank)) continue;
        now.push_back(whereabouts(rank));
        in_no_event = in_no_event || now.back().inside[0] != 0;
    }
    const auto same = [](const Whereabouts& a, const Whereabouts& b) {
        return a.position == b.position && std::strcmp(a.inside, b.inside) == 0;
    };
    const std::int64_t clock = milliseconds_now();
    if (!std::ranges::equal(now, moving_, same)) {
        moving_ = std::move(now);
        moved_at_ = clock;
    }
    return in_no_event ? clock - moved_at_ : 0;
}

// Who hasn't come yet comes to this stop later, and finds that the next one is the same place.
Result<bool> Job::release_who_stands() {
    std::string stops;
    std::set<int> released = released_;
    std::size_t at = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
        const std::size_t end = std::min(stops_.find(',', at), stops_.size());
        std::string own = stops_.substr(at, end - at);
        // Before its next event nobody is let go on a second time.
        if (stands(rank) && !released_.contains(rank) && stays_ != static_cast<causality::Process>(rank) &&
            own.back() != '+') {
            own += '~';
            released.insert(rank);
        }
        stops += (rank > 0 ? "," : "") + own;
        at = end + 1;
    }
    if (released == released_) return false;
    released_ = std::move(released);
    moving_.clear();
    CHECK_OK(write_next(stops));
    return true;
}

// Nobody knows how long a program computes: the user is told, and may interrupt.
void Job::say_who_is_late(std::int64_t since) {
    constexpr std::int64_t each = 10'000;
    if (milliseconds_now() - std::max(since, said_at_) < each) return;
    said_at_ = milliseconds_now();
    std::string who;
    for (int rank = 0; rank < ranks_; ++rank) {
        if (stands(rank)) continue;
        const Whereabouts here = whereabouts(rank);
        who += fmt::format("{}rank {}, behind {} of {} events of its trace{}{}", who.empty() ? "" : "; ",
                           rank, here.position, cut_[static_cast<std::size_t>(rank)],
                           here.inside[0] != 0 ? ", in " : "", here.inside);
    }
    show_(-1, true, fmt::format("cairn mpi: for {} s now waiting for {}\n", (said_at_ - since) / 1'000, who));
}

Result<bool> Job::wait_until_all_stand(std::int64_t patience) {
    constexpr std::int64_t long_enough = 300;  // to believe that somebody waits for others
    const std::int64_t began = milliseconds_now();
    for (int rank = 0;;) {
        while (rank < ranks_ && stands(rank)) ++rank;
        if (rank == ranks_) break;
        const std::int64_t still = nobody_has_moved_for();
        if (still > long_enough && TRY(release_who_stands())) rank = 0;
        if (still > patience) return false;
        say_who_is_late(began);
        show_output(false);
        if (main_ < 0 || over(main_)) {
            const std::string how = main_ < 0 ? "by itself" : "with " + said_of(ended_[main_]);
            main_ = -1;
            show_output(true);
            return fail_code(ExitCode::refused, "the job ends {} before all stand there: {}", how,
                             last_words(path_of(errors)));
        }
        if (interrupted != 0) return fail_code(ExitCode::refused, "interrupted");
        ::poll(nullptr, 0, 2);
    }
    show_what_still_comes();
    return true;
}

Result<bool> Job::run_to(const std::string& stops, const causality::Cut& cut,
                         std::optional<causality::Process> stays) {
    stops_ = stops;
    cut_ = cut;
    stays_ = stays;
    released_.clear();
    moving_.clear();
    CHECK_OK(write_next(stops));
    return wait_until_all_stand();
}

Result<> Job::write_next(const std::string& stops) {
    const std::string next = fmt::format("{}/stopped/next.{}", tools_.scratch(), stop_),
                      whole = next + ".new";
    {
        std::ofstream file(whole);
        file << stops << "\n";
        if (!file.flush()) return fail_errno("writing {}", whole);
    }
    if (::rename(whole.c_str(), next.c_str()) != 0) return fail_errno("renaming {}", whole);
    ++stop_;
    return {};
}

Result<Job::Checkpoint> Job::save() {
    Checkpoint checkpoint{.folder = fmt::format("{}/{}", disk_, ++saved_),
                          .stop = stop_,
                          .cut = cut_,
                          .released = released_,
                          .whereabouts = {},
                          .written = {size_of(path_of(output)), size_of(path_of(errors))}};
    for (int rank = 0; rank < ranks_; ++rank) checkpoint.whereabouts.push_back(whereabouts(rank));
    const auto began = std::chrono::steady_clock::now();
    std::error_code failed;
    fs::create_directory(checkpoint.folder, failed);
    if (failed) return fail("making {}: {}", checkpoint.folder, failed.message());
    if (auto done = run_tool({"cairn", "checkpoint", "--session", session, "--quiet", "--files", "save",
                              "--ckptdir", checkpoint.folder},
                             "checkpoint");
        !done) {
        remove(checkpoint);
        return std::unexpected(std::move(done).error());
    }
    checkpoint.bytes = bytes_in(checkpoint.folder);
    checkpoint.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return checkpoint;
}

std::vector<int> Job::bound() const {
    std::vector<int> which;
    for (int rank = 0; rank < ranks_; ++rank)
        if (whereabouts(rank).bound != 0) which.push_back(rank);
    return which;
}

Result<std::string> Job::leave(const std::string& folder) {
    // What it prints is another run's.
    show_output(true);
    const auto before = seen_;
    for (Seen& each : seen_) each.again.clear();
    CHECK_OK(write_next(leave_word));
    while (!over(main_)) {
        if (interrupted != 0) {
            end();
            return fail_code(ExitCode::refused, "interrupted: the job is ended, and not recorded");
        }
        show_output(false);
        ::poll(nullptr, 0, 5);
    }
    std::string how = said_of(ended_[main_]);
    main_ = -1;
    show_output(true);
    seen_ = before;
    for (const Stream stream : {output, errors})
        if (::truncate(path_of(stream).c_str(), static_cast<off_t>(seen_[stream].bytes)) != 0)
            return fail_errno("cutting off {}", path_of(stream));
    // Copied: the files are those of the checkpoints, too.
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (!failed) fs::copy(tools_.scratch() + "/left", folder, failed);
    if (failed) return fail("writing {}: {}", folder, failed.message());
    return how;
}

void Job::remove(const Checkpoint& checkpoint) const {
    std::error_code ignored;
    fs::remove_all(checkpoint.folder, ignored);
}

void Job::forget_stops() const {
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator(tools_.scratch() + "/stopped", ignored))
        if (!each.path().filename().string().starts_with("at.")) fs::remove(each.path(), ignored);
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
        for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
             begin = end + 1)
            seen.again.insert(text.substr(begin, end - begin));
        if (::truncate(path_of(stream).c_str(), static_cast<off_t>(before)) != 0)
            return fail_errno("cutting off {}", path_of(stream));
        seen.bytes = before;
        seen.rest.clear();
    }
    for (int rank = 0; rank < ranks_; ++rank) {
        std::ofstream file(whereabouts_path(tools_.scratch(), rank), std::ios::binary | std::ios::in);
        file.write(reinterpret_cast<const char*>(&checkpoint.whereabouts[static_cast<std::size_t>(rank)]),
                   sizeof(Whereabouts));
    }
    main_ = TRY(
        tools_.start({"cairn", "restart", "--quiet", "--session", session, checkpoint.folder}, "restart"));
    begun(main_);
    stop_ = checkpoint.stop;
    cut_ = checkpoint.cut;
    released_ = checkpoint.released;
    moving_.clear();
    auto there = wait_until_all_stand();
    if (!there && main_ < 0) return fail("{}: {}", checkpoint.folder, tools_.said_in("restart"));
    return error_of(there);
}

void Job::show_line(Stream stream, const std::string& line) {
    auto& again = seen_[stream].again;
    if (const auto found = again.find(line); found != again.end())
        again.erase(found);
    else
        show_(-1, stream == errors, line + "\n");
}

// mpiexec hands on what ranks print, and is a moment later than they mostly. What is later still comes before
// the next command (show_late_output()).
void Job::show_what_still_comes() {
    constexpr int quiet = 15, longest = 150;  // ms
    std::uint64_t before = ~std::uint64_t{0};
    for (int waited = 0; waited < longest; waited += quiet) {
        const std::uint64_t now = size_of(path_of(output)) + size_of(path_of(errors));
        if (now == before) break;
        before = now;
        ::poll(nullptr, 0, quiet);
    }
    show_output(false);
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
