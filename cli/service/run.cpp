#include "cli/service/run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "cli/job/coordinator.h"
#include "cli/job/folder.h"
#include "cli/job/saved.h"
#include "cli/service/claim.h"
#include "cli/service/notify.h"
#include "cli/service/session.h"
#include "common/image/manifest.h"
#include "common/layout.h"

namespace cairn::service {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// How often the session is asked until the programs run, and how often whether its coordinator lives.
constexpr milliseconds starting_look{50};
constexpr seconds coordinator_look{5};
// A checkpoint that has failed is tried again so much later, each time twice as much, or after the interval.
constexpr seconds next_try{60};
constexpr int most_doublings = 6;
// What is in the way of the last checkpoint may pass: a connection that is just being made.
constexpr int last_tries = 5;

class Run {
  public:
    explicit Run(const Settings& settings) : settings_(settings) {}

    Result<int> main();

  private:
    Result<int> go();
    Result<> choose();
    Result<> launch();
    Result<> launch_next();
    [[nodiscard]] bool all_begun() const { return from_ || launched_ == settings_.programs.size(); }
    Result<> restart(const job::Saved& saved);
    Result<> start_coordinator();
    Result<bool> runs_now() const;
    Result<> look_at_start();
    Result<> judge_start();
    void reap();
    void program_ended(std::size_t program, int code);
    void checkpoint_ended(int code);
    void tell_newest();
    void begin_checkpoint();
    void look_after_coordinator();
    Result<int> stay();
    Result<int> stop();
    Result<int> finish();
    Result<> await_end(seconds patience);
    [[nodiscard]] milliseconds pause() const;

    const Settings& settings_;
    Notify notify_;
    // What was started, and which program it is; a restart stands for all.
    std::map<pid_t, std::size_t> running_;
    std::map<std::size_t, int> codes_;
    std::size_t launched_ = 0;         // programs, where there is nothing to go on from
    std::optional<std::string> from_;  // the checkpoint that the programs go on from; none: they begin
    bool ready_ = false;               // all programs run
    pid_t checkpoint_ = 0;             // the command that takes one
    bool stopping_ = false;
    int failures_ = 0;       // of checkpoints, one after another
    bool save_now_ = false;  // as soon as none is being taken
    std::optional<Clock::time_point> next_checkpoint_;
    Clock::time_point next_look_ = Clock::now() + coordinator_look;
};

Result<> Run::start_coordinator() {
    auto started = job::start_coordinator(
        {.session = settings_.session(),
         .folder = settings_.folder,
         .interval = 0,
         .keep = settings_.keep,
         .more = {"--external", settings_.external, "--landlock", settings_.landlock}});
    if (!started) return std::unexpected(std::move(started.error()).in("the service's coordinator"));
    return {};
}

// One after the other, each when the one before is a member: the first member begins the computation, and is
// the one whose exit status a restart has.
Result<> Run::launch() {
    CHECK_OK(start_coordinator());
    from_.reset();
    return launch_next();
}

Result<> Run::launch_next() {
    job::Words words{own_program("cairn"), "launch", "--session", settings_.session(), "--"};
    const job::Words& program = settings_.programs[launched_];
    words.insert(words.end(), program.begin(), program.end());
    running_[TRY(job::start_command(words))] = launched_++;
    return {};
}

Result<> Run::restart(const job::Saved& saved) {
    CHECK_OK(start_coordinator());
    from_ = saved.folder;
    const pid_t pid =
        TRY(job::start_command({own_program("cairn"), "restart", "--session", settings_.session(), "--files",
                                settings_.files, "--ids", settings_.ids, saved.folder}));
    running_[pid] = 0;
    return {};
}

// Where to go on from, and begins it.
Result<> Run::choose() {
    std::vector<std::string> notes;
    const auto saved = job::newest_good(settings_.folder, settings_.verify, notes);
    for (const std::string& note : notes) job::say(note);
    if (saved) {
        job::say(fmt::format("service {} goes on from {}", settings_.name, job::describe(*saved)));
        return restart(*saved);
    }
    if (notes.empty()) {
        job::say(fmt::format("service {} begins: there is no checkpoint in {} yet", settings_.name,
                             settings_.folder));
        return launch();
    }
    if (settings_.fresh == Fresh::if_needed) {
        job::say(fmt::format("no checkpoint in {} is good; service {} begins anew", settings_.folder,
                             settings_.name));
        return launch();
    }
    return fail_code(
        ExitCode::damaged,
        "no checkpoint in {} is good; for the service to begin anew: `cairn service forget {}`, or "
        "fresh=if-needed in {}",
        settings_.folder, settings_.name, settings_.file);
}

// Every program is a member before the first checkpoint, or that would be one without it.
Result<bool> Run::runs_now() const {
    if (from_) {
        const auto state = TRY(session_state(settings_.session()));
        return state.state == "running" && state.processes > 0;
    }
    const auto members = TRY(members_of(settings_.session()));
    return std::ranges::all_of(running_, [&](const auto& each) { return members.contains(each.first); });
}

Result<> Run::look_at_start() {
    if (const auto runs = runs_now(); !runs || !*runs) return {};
    if (!all_begun()) return launch_next();
    ready_ = true;
    notify_.tell("READY=1\nSTATUS=" + std::string(from_ ? "goes on" : "has begun"));
    if (settings_.interval > 0)
        next_checkpoint_ = Clock::now() + std::chrono::duration_cast<milliseconds>(
                                              std::chrono::duration<double>(settings_.interval));
    // From now on a machine that loses power has something to go on from.
    if (!from_)
        save_now_ = true;
    else
        tell_newest();
    return {};
}

// A program that couldn't be started, or a restart that has ended before the programs run.
Result<> Run::judge_start() {
    if (from_) {
        if (!codes_.contains(0) || codes_[0] == 0) return {};
        const int code = std::exchange(codes_, {}).at(0);
        if (settings_.fresh == Fresh::if_needed) {
            job::say(fmt::format("{} can't be restarted; service {} begins anew", *from_, settings_.name));
            return launch();
        }
        return fail_code(ExitCode{code},
                         "service {}: {} can't be restarted, for the reason above. It is tried again at the "
                         "next start; for "
                         "the service to begin anew: `cairn service forget {}`, or fresh=if-needed in {}",
                         settings_.name, *from_, settings_.name, settings_.file);
    }
    for (const auto& [program, code] : codes_) {
        if (code == 0) continue;
        static_cast<void>(end_programs(settings_.session()));
        return fail_code(
            ExitCode{code},
            "service {}: program {} ({}) ended with {} before all ran; the others were ended, too",
            settings_.name, program + 1, settings_.programs[program][0], code);
    }
    return {};
}

void Run::program_ended(std::size_t program, int code) {
    codes_[program] = code;
    if (ready_ && !stopping_ && !running_.empty())
        job::say(fmt::format("program {} ({}) has ended with {}; the others go on", program + 1,
                             settings_.programs[program][0], code));
}

void Run::tell_newest() {
    std::error_code problem;
    const std::string newest = fs::canonical(settings_.folder + "/latest", problem);
    if (problem) return;
    if (const auto manifest = read_manifest(newest))
        notify_.tell("STATUS=" + job::describe({newest, *manifest}));
}

void Run::checkpoint_ended(int code) {
    checkpoint_ = 0;
    if (code == 0) {
        failures_ = 0;
        return tell_newest();
    }
    job::say(fmt::format("a checkpoint has failed ({}); the programs go on", code));
    notify_.tell(fmt::format("STATUS=the last checkpoint has failed ({})", code));
    const auto again = Clock::now() + next_try * (1 << std::min(failures_++, most_doublings));
    next_checkpoint_ = next_checkpoint_ ? std::min(*next_checkpoint_, again) : again;
}

void Run::reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == checkpoint_) {
            checkpoint_ended(job::exit_code_of(status));
            continue;
        }
        const auto found = running_.find(pid);
        if (found == running_.end()) continue;
        const std::size_t program = found->second;
        running_.erase(found);
        program_ended(program, job::exit_code_of(status));
    }
}

void Run::begin_checkpoint() {
    save_now_ = false;
    if (settings_.interval > 0)
        next_checkpoint_ = Clock::now() + std::chrono::duration_cast<milliseconds>(
                                              std::chrono::duration<double>(settings_.interval));
    else
        next_checkpoint_.reset();
    auto begun =
        job::start_command({own_program("cairn"), "checkpoint", "--quiet", "--session", settings_.session()});
    if (begun)
        checkpoint_ = *begun;
    else
        job::say(fmt::format("a checkpoint can't be begun: {}", begun.error().what));
}

// Programs don't need it, checkpoints do. One that is started again finds the programs.
void Run::look_after_coordinator() {
    next_look_ = Clock::now() + coordinator_look;
    if (is_served(settings_.session())) return;
    const auto started = start_coordinator();
    job::say(started ? std::string("the service's coordinator had ended; there is another")
                     : started.error().what);
}

// The programs have ended by themselves.
Result<int> Run::finish() {
    job::quit_coordinator(settings_.session());
    if (!ready_) notify_.tell("READY=1");
    const auto failed = std::ranges::find_if(codes_, [](const auto& each) { return each.second != 0; });
    if (failed != codes_.end()) return failed->second;
    // What has come to its end isn't done once more from a checkpoint.
    CHECK_OK(give_up_checkpoints(settings_.folder));
    return 0;
}

Result<> Run::await_end(seconds patience) {
    const auto limit = Clock::now() + patience;
    while (!running_.empty()) {
        if (Clock::now() > limit)
            return fail_code(ExitCode::timed_out, "the programs have not ended within {} s",
                             patience.count());
        std::this_thread::sleep_for(milliseconds(20));
        reap();
    }
    return {};
}

// systemd asks for the end. It kills all that is left when its time is over (TimeoutStopSec): the checkpoint
// before counts then.
Result<int> Run::stop() {
    stopping_ = true;
    notify_.tell("STOPPING=1\nSTATUS=saves the programs");
    if (!ready_) {
        job::say("the service is stopped before its programs run: they are ended");
        if (from_)
            for (const auto& [pid, program] : running_) ::kill(pid, SIGTERM);
        else
            static_cast<void>(end_programs(settings_.session()));
        CHECK_OK(await_end(seconds(60)));
        job::quit_coordinator(settings_.session());
        return 0;
    }
    while (checkpoint_ != 0) {
        std::this_thread::sleep_for(milliseconds(20));
        reap();
    }
    int code = 1;
    for (int tries = 0; tries < last_tries && code != 0 && !running_.empty(); ++tries) {
        if (tries > 0) std::this_thread::sleep_for(seconds(1));
        if (!is_served(settings_.session())) CHECK_OK(start_coordinator());
        code = TRY(job::save_and_end(settings_.session())).code;
        reap();
    }
    if (code != 0 && running_.empty()) return finish();
    if (code != 0) {
        job::say(
            "the service can't be saved, and ends without: its next start goes on from the checkpoint "
            "before");
        CHECK_OK(end_programs(settings_.session()));
    }
    CHECK_OK(await_end(seconds(20)));
    job::quit_coordinator(settings_.session());
    return code;
}

milliseconds Run::pause() const {
    if (!ready_) return starting_look;
    auto until = next_look_;
    if (next_checkpoint_) until = std::min(until, *next_checkpoint_);
    return std::max(milliseconds(10), std::chrono::duration_cast<milliseconds>(until - Clock::now()));
}

Result<int> Run::stay() {
    const sigset_t signals = job::handled_signals();
    while (true) {
        const milliseconds wait = pause();
        const timespec tick{wait.count() / 1000, wait.count() % 1000 * 1'000'000};
        const int number = ::sigtimedwait(&signals, nullptr, &tick);
        reap();
        if (!ready_) CHECK_OK(judge_start());
        if (running_.empty() && checkpoint_ == 0 && all_begun()) return finish();
        if (number == SIGTERM || number == SIGINT) return stop();
        if (number == SIGHUP) save_now_ = true;
        if (!ready_) {
            CHECK_OK(look_at_start());
            continue;
        }
        if (Clock::now() >= next_look_) look_after_coordinator();
        if (next_checkpoint_ && Clock::now() >= *next_checkpoint_) save_now_ = true;
        if (save_now_ && checkpoint_ == 0) begin_checkpoint();
    }
}

Result<int> Run::go() {
    CHECK_OK(choose());
    return stay();
}

Result<int> Run::main() {
    // A unit's folder below /run is there from its start to its end: no session of an earlier boot is in it.
    if (const char* own = std::getenv("RUNTIME_DIRECTORY"); own != nullptr && *own != '\0') {
        const std::string first(own);
        ::setenv("CAIRN_RUNDIR", first.substr(0, first.find(':')).c_str(), 0);
    }
    if (settings_.sync) ::setenv("CAIRN_SYNC", "1", 1);
    // What a service falls back to may not be damaged together with the newest checkpoint.
    if (settings_.full) ::setenv("CAIRN_FULL", "1", 1);
    if (!settings_.working.empty() && ::chdir(settings_.working.c_str()) != 0)
        return fail_errno("{}, which {} names", settings_.working, settings_.file);
    CHECK_OK(job::make_own_folder(settings_.folder));
    const Claim claim = TRY(Claim::take(settings_.folder));
    const sigset_t signals = job::handled_signals();
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    CHECK_OK(end_leftovers(settings_.session(), settings_.folder));
    notify_.tell("STATUS=reads the newest checkpoint");
    auto done = go();
    if (!done && is_served(settings_.session())) job::quit_coordinator(settings_.session());
    return done;
}

}  // namespace

Result<int> run(const Settings& settings) {
    auto done = Run(settings).main();
    if (!done && done.error().code == ExitCode::refused)
        return std::unexpected(std::move(done.error()).in("service " + settings.name));
    return done;
}

}  // namespace cairn::service
