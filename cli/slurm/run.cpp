#include "cli/slurm/run.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>

#include "cli/job/commands.h"
#include "cli/job/coordinator.h"
#include "cli/job/folder.h"
#include "cli/job/saved.h"
#include "cli/slurm/job.h"
#include "cli/slurm/nodes.h"
#include "common/human.h"
#include "common/image/manifest.h"
#include "common/layout.h"

namespace cairn::slurm {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Not for the program: Slurm sends SIGCONT before every other signal, and who stops a job stops all of its
// processes.
bool is_passed_on(int number) {
    switch (number) {
        case SIGCONT:
        case SIGTSTP:
        case SIGTTIN:
        case SIGTTOU:
        case SIGPIPE:
        case SIGURG:
        case SIGWINCH:
            return false;
        default:
            return true;
    }
}

class Run {
  public:
    Run(const Settings& settings, Job job) : settings_(settings), job_(std::move(job)) {}

    Result<int> main();

  private:
    void check_output() const;
    Result<> make_folder();
    Result<> start_coordinator();
    Result<> restart(const job::Saved& saved);
    Result<> launch();
    Result<int> stay();
    void reap();
    void show_newest();
    bool has_to_go(bool ask);
    void judge_term();
    Result<int> leave(const std::string& why);
    void finish(int code);

    const Settings& settings_;
    Job job_;
    Party party_;
    std::string folder_;
    std::map<pid_t, std::size_t> running_;  // what was started, and for which node; node 0's is the program
    std::map<std::size_t, int> codes_;
    std::string shown_;  // the checkpoint that the comment tells of
    JobState state_;
    std::int64_t last_took_ = 0;  // ns, the newest checkpoint
    Clock::time_point next_question_;
    bool asked_ = false;  // to leave, once
};

// Slurm opens the job's output anew when it is requeued; what the program has written is lost unless Slurm is
// told to append.
void Run::check_output() const {
    const char* mode = std::getenv("SLURM_OPEN_MODE");
    struct stat status {};
    if (job_.restarts > 0 || (mode != nullptr && *mode == 'a') || ::fstat(STDOUT_FILENO, &status) != 0)
        return;
    if (S_ISREG(status.st_mode))
        job::say(
            "note: what the job has printed is lost when it is requeued, unless sbatch is given "
            "--open-mode=append (or the "
            "site has JobFileAppend=1)");
}

Result<> Run::make_folder() {
    folder_ = settings_.folder + "/cairn-" + (settings_.name.empty() ? job_.name : settings_.name);
    std::error_code problem;
    // Slurm counts jobs from 1 again when it has lost its state: this isn't the job that has left the folder.
    if (settings_.name.empty() && job_.restarts == 0 && fs::exists(folder_, problem)) {
        const std::string aside = fmt::format("{}.{}", folder_, std::time(nullptr));
        fs::rename(folder_, aside, problem);
        job::say(fmt::format("{} was there before this job began, and is {} now", folder_, aside));
    }
    if (auto made = job::make_own_folder(folder_); !made)
        return std::unexpected(std::move(made.error()).in("slurm run"));
    return {};
}

Result<> Run::start_coordinator() {
    job::Coordinator wish{.session = party_.session_of(0),
                          .folder = folder_,
                          .interval = settings_.interval,
                          .keep = settings_.keep,
                          .more = {}};
    if (party_.several()) wish.more = {"--listen", party_.endpoint, "--host", Party::host_name(0)};
    if (auto started = job::start_coordinator(wish); !started)
        return std::unexpected(std::move(started.error()).in("the job's coordinator"));
    if (!party_.several()) return {};
    CHECK_OK(publish_key(party_));
    return prepare_spawning(party_, folder_);
}

Result<> Run::launch() {
    job::Words program{"--"};
    program.insert(program.end(), settings_.program.begin(), settings_.program.end());
    if (settings_.batch_script) {
        // Slurm's own copy is removed when the job leaves the node.
        program[1] = folder_ + "/script";
        std::error_code problem;
        fs::copy_file(settings_.program[0], program[1], fs::copy_options::overwrite_existing, problem);
        if (problem || ::chmod(program[1].c_str(), 0700) != 0)
            return fail("{}: {}", program[1], problem ? problem.message() : std::strerror(errno));
    }
    const std::size_t nodes = settings_.all_nodes ? party_.nodes.size() : 1;
    for (std::size_t node = 0; node < nodes; ++node) {
        const pid_t pid = TRY(job::start_command(party_.on_node(node, "launch", program)));
        running_[pid] = node;
    }
    return {};
}

Result<> Run::restart(const job::Saved& saved) {
    const auto& hosts = saved.manifest.hosts;
    const bool several = !hosts.empty() && saved.manifest.images.empty();
    for (std::size_t node = 0; node < std::max<std::size_t>(hosts.size(), 1); ++node) {
        std::size_t place = node;
        job::Words more;
        if (several) {
            const std::string& name = hosts[node].name;
            for (place = 0; place < party_.nodes.size() && Party::host_name(place) != name;) ++place;
            if (place == party_.nodes.size())
                return fail_code(ExitCode::refused, "slurm run: {} has a part for {}, and the job has {}",
                                 saved.folder, name, human_count(party_.nodes.size(), "node"));
            more = {"--host", name, "--wait", "600"};
        }
        more.push_back(saved.folder);
        const pid_t pid = TRY(job::start_command(party_.on_node(place, "restart", more)));
        running_[pid] = place;
    }
    return {};
}

void Run::reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        const auto found = running_.find(pid);
        if (found == running_.end()) continue;
        codes_[found->second] = job::exit_code_of(status);
        running_.erase(found);
    }
}

void Run::show_newest() {
    std::error_code problem;
    const std::string newest = fs::canonical(folder_ + "/latest", problem);
    if (problem || newest == shown_) return;
    const auto manifest = read_manifest(newest);
    if (!manifest) return;
    shown_ = newest;
    last_took_ = manifest->total_ns;
    if (const auto done = set_comment(job_, "cairn: " + job::describe({newest, *manifest})); !done)
        job::say(fmt::format("the job's comment can't be set: {}", done.error().what));
}

// Whether preemption has been announced, or the time limit is near. Slurm is asked now and then, or now
// (`ask`).
bool Run::has_to_go(bool ask) {
    if (ask || (settings_.poll > 0 && Clock::now() >= next_question_)) {
        next_question_ = Clock::now() + std::chrono::seconds(settings_.poll);
        if (auto state = job_state(job_))
            state_ = std::move(*state);
        else
            job::say(fmt::format("{}; the job goes on", state.error().what));
    }
    if (state_.preempted) return true;
    if (state_.end == 0 || settings_.before == 0) return false;
    // Three times as long as the last one took, but at most half of the time that the job has.
    const std::int64_t needed = std::max<std::int64_t>(settings_.before, 3 * last_took_ / 1'000'000'000 + 5);
    const std::int64_t margin = std::min(needed, (state_.end - state_.start) / 2);
    return std::time(nullptr) >= state_.end - margin;
}

// Makes the last checkpoint, with which the programs end, and hands the job back to Slurm.
Result<int> Run::leave(const std::string& why) {
    job::say(why + ": a checkpoint, and the job is requeued");
    const auto done = job::save_and_end(party_.session_of(0));
    const bool taken = done && done->code == 0;
    if (taken) show_newest();
    reap();
    if (!taken && codes_.contains(0)) return stay();  // it has come to its end meanwhile
    std::error_code problem;
    if (!taken && !fs::exists(folder_ + "/latest", problem)) {
        job::say("there is no checkpoint to go on from, so the job isn't requeued");
        return stay();
    }
    constexpr int most_tries = 10;
    for (int tries = 0; tries < most_tries; ++tries) {
        const auto requeued = requeue(job_);
        const sigset_t term = [] {
            sigset_t set;
            ::sigemptyset(&set);
            ::sigaddset(&set, SIGTERM);
            return set;
        }();
        // Slurm ends the job with SIGTERM and, a while later, SIGKILL.
        const timespec a_while{requeued ? 600 : 5, 0};
        if (::sigtimedwait(&term, nullptr, &a_while) == SIGTERM || requeued) return 128 + SIGTERM;
        job::say(fmt::format("the job can't be requeued: {}", requeued.error().what));
    }
    return fail(
        "slurm run: the job ends here; its checkpoint is {}/latest, and a job with --name can go on from it",
        folder_);
}

// SIGTERM comes from Slurm for all processes of a job that has to end, or from the user for this one.
void Run::judge_term() {
    const auto state = job_state(job_);
    if (!state || state->state != "RUNNING") return;
    for (const auto& [pid, node] : running_)
        if (node == 0) ::kill(pid, SIGTERM);
}

Result<int> Run::stay() {
    const sigset_t signals = job::handled_signals();
    while (true) {
        const timespec tick{1, 0};
        siginfo_t info{};
        const int number = ::sigtimedwait(&signals, &info, &tick);
        reap();
        if (codes_.contains(0) && (!settings_.all_nodes || running_.empty())) {
            int code = codes_[0];
            if (settings_.all_nodes)
                for (const auto& [node, other] : codes_) code = code == 0 ? other : code;
            finish(code);
            return code;
        }
        if (number == settings_.warning && !asked_) {
            asked_ = true;
            return leave("Slurm warns that the job has to go");
        }
        if (number == SIGTERM)
            judge_term();
        else if (number > 0 && number != SIGCHLD && is_passed_on(number))
            for (const auto& [pid, node] : running_)
                if (node == 0) ::kill(pid, number);
        show_newest();
        if (!asked_ && has_to_go(false)) {
            asked_ = true;
            return leave(state_.preempted ? "the job is preempted" : "the job's time limit is near");
        }
    }
}

// A job that Slurm is ending may have ended by SIGTERM with any code: its checkpoints are needed yet.
void Run::finish(int code) {
    job::quit_coordinator(party_.session_of(0));
    if (code != 0) return;
    const auto state = job_state(job_);
    if (!state || state->state != "RUNNING") return;
    std::error_code problem;
    fs::remove_all(folder_, problem);
}

Result<int> Run::main() {
    const std::string program = fs::path(settings_.program[0]).filename();
    if (program == "srun")
        return fail_code(
            ExitCode::refused,
            "slurm run: srun is a part of Slurm's and can't be saved, nor can what it starts; start an MPI "
            "program by mpiexec (docs/slurm.md), any other by itself or with --all-nodes");
    check_output();
    CHECK_OK(make_folder());
    const sigset_t signals = job::handled_signals();
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    party_ = TRY(make_party(job_, folder_));
    std::vector<std::string> notes;
    const auto saved = job::newest_good(folder_, settings_.verify, notes);
    for (const std::string& note : notes) job::say(note);
    CHECK_OK(start_coordinator());
    if (saved) {
        shown_ = saved->folder;
        last_took_ = saved->manifest.total_ns;
        job::say(fmt::format("the job goes on from {} on {}", job::describe(*saved), job_.node));
        CHECK_OK(restart(*saved));
    } else {
        if (job_.restarts > 0) job::say("there is no good checkpoint; the job begins anew");
        CHECK_OK(launch());
    }
    return stay();
}

}  // namespace

Result<int> run(const Settings& settings) {
    Job job = TRY(this_job());
    return Run(settings, std::move(job)).main();
}

}  // namespace cairn::slurm
