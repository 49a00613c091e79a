#include "restart/forest/execute.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/proc.h"
#include "restart/forest/live.h"
#include "restart/who_has.h"

namespace cairn::restart::forest {

namespace {

using Clock = std::chrono::steady_clock;

bool lives(const Result<proc::Stat>& stat) {
    return stat && stat->state != 'Z' && stat->state != 'X';
}

class Subreaper {  // PR_SET_CHILD_SUBREAPER of this process, put back at the end
  public:
    explicit Subreaper(bool on) {
        ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
        ::prctl(PR_SET_CHILD_SUBREAPER, on ? 1 : 0);
    }
    ~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }
    Subreaper(const Subreaper&) = delete;
    Subreaper& operator=(const Subreaper&) = delete;

  private:
    int before_ = 0;
};

// While the tool has children that are to stay zombies it must not ignore SIGCHLD.
class DefaultSigchld {
  public:
    DefaultSigchld() {
        struct sigaction action {};
        ::sigaction(SIGCHLD, nullptr, &before_);
        changed_ = before_.sa_handler == SIG_IGN || (before_.sa_flags & SA_NOCLDWAIT) != 0;
        action.sa_handler = SIG_DFL;
        if (changed_) ::sigaction(SIGCHLD, &action, nullptr);
    }
    ~DefaultSigchld() {
        if (changed_) ::sigaction(SIGCHLD, &before_, nullptr);
    }
    DefaultSigchld(const DefaultSigchld&) = delete;
    DefaultSigchld& operator=(const DefaultSigchld&) = delete;

  private:
    struct sigaction before_ {};
    bool changed_ = false;
};

class CoreDirectory {  // "" unless core files of this kernel land in the working directory
  public:
    explicit CoreDirectory(const Plan& plan) {
        if (std::ranges::none_of(plan.nodes, [](const Node& node) { return dumped(node); })) return;
        std::ifstream file("/proc/sys/kernel/core_pattern");
        std::string pattern;
        std::getline(file, pattern);
        if (pattern.empty() || pattern[0] == '|' || pattern.find('/') != std::string::npos) return;
        std::string path = (std::filesystem::temp_directory_path(ignored_) / "cairn-core-XXXXXX").string();
        if (::mkdtemp(path.data()) != nullptr) path_ = path;
    }
    ~CoreDirectory() {
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored_);
    }
    CoreDirectory(const CoreDirectory&) = delete;
    CoreDirectory& operator=(const CoreDirectory&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    static bool dumped(const Node& node) {
        return node.zombie && WIFSIGNALED(node.wait_status) && WCOREDUMP(node.wait_status);
    }
    std::error_code ignored_;
    std::string path_;
};

class Executing {
  public:
    Executing(const Plan& plan, const Execution& how)
        : plan_(plan),
          deadline_(how.deadline),
          end_(Clock::now() + how.deadline),
          cores_(plan),
          shared_{plan, how} {}

    Result<Forest> run() {
        auto board = TRY(Board::create(plan_.processes.size(), plan_.barriers.size()));
        shared_.board = board;
        shared_.tool = KernelId(::getpid());
        shared_.tool_group = KernelId(::getpgrp());
        if (!shared_.tool_group.known() && returns_to_tools_group())
            return fail(
                "a process has led a group and come back to that of the restart tool, but that group has no "
                "id "
                "in this pid namespace: the tool has to be in one that was made here");
        shared_.core_directory = cores_.path();
        shared_.tool_alive.reset(static_cast<int>(::syscall(SYS_pidfd_open, shared_.tool.number(), 0)));
        if (!shared_.tool_alive) return fail_errno("pidfd_open of the restart tool itself");
        if (shared_.how.exact_ids)
            for (const Process& process : plan_.processes)
                if (process.exact) shared_.reserved.push_back(kernel_id_of_same_number(process.id));
        shared_.reserved.insert(shared_.reserved.end(), shared_.how.reserved.begin(),
                                shared_.how.reserved.end());
        std::ranges::sort(shared_.reserved);
        for (const Node& node : plan_.nodes)
            if (node.zombie && node.exit_signal != SIGCHLD && node.exit_signal > 0)
                shared_.exit_signals.push_back(node.exit_signal);

        const Subreaper off(false);
        const DefaultSigchld kept;
        Result<> done = take_steps();
        if (done) done = see_all_arrive();
        Forest forest(shared_.board, pids());
        if (!done) {
            Error error = std::move(done.error());
            for (const KernelId left : forest.kill_all())
                error.what += fmt::format("; process {} can't be killed", left);
            return std::unexpected(std::move(error));
        }
        fill(forest);
        return forest;
    }

  private:
    [[nodiscard]] std::vector<KernelId> pids() const {
        std::vector<KernelId> all{KernelId(::getpid())};
        for (std::size_t i = 1; i < plan_.processes.size(); ++i)
            all.push_back(shared_.board->entry(static_cast<int>(i)).pid.load());
        return all;
    }

    [[nodiscard]] bool returns_to_tools_group() const {
        return std::ranges::any_of(plan_.processes, [](const Process& process) {
            return std::ranges::any_of(process.steps, [](const Step& step) {
                return step.act == Act::join_group && step.process == 0;
            });
        });
    }

    void fill(Forest& forest) const {
        for (std::size_t i = 1; i < plan_.processes.size(); ++i)
            if (plan_.processes[i].id.known()) forest.made.emplace(plan_.processes[i].id, forest.pids()[i]);
        for (const Id id : plan_.outer_sessions) forest.made.emplace(id, KernelId(::getsid(0)));
        for (const Id id : plan_.outer_groups) forest.made.emplace(id, shared_.tool_group);
        if (const std::uint32_t lost = shared_.board->cores_lost().load(); lost != 0)
            forest.notes.push_back(fmt::format(
                "{} zombie(s) that were killed with a core dump come back without the core flag in their "
                "wait status: cores can't be dumped aside here (see core_pattern in core(5))",
                lost));
    }

    Result<> take_steps() {
        Entry& entry = shared_.board->entry(0);
        entry.stage = Stage::building;
        for (const Step& step : plan_.processes[0].steps) {
            CHECK_OK(carry_out(step));
            ++entry.step;
        }
        return {};
    }

    Result<> carry_out(const Step& step) {
        Board& board = *shared_.board;
        switch (step.act) {
            case Act::fork: {
                auto child = fork_child(shared_, step.process);
                if (child) return {};
                board.fail(0, static_cast<int>(board.entry(0).step.load()), Mishap::call,
                           child.error().number);
                return std::unexpected(what_failed());
            }
            case Act::subreaper:
                if (::prctl(PR_SET_CHILD_SUBREAPER, step.on ? 1 : 0) != 0)
                    return fail_errno("PR_SET_CHILD_SUBREAPER");
                return {};
            case Act::signal:
                board.signal(step.barrier, needed(step));
                return {};
            case Act::wait:
                return until([&] { return board.reached(step.barrier, needed(step)); });
            case Act::reap:
            case Act::see_zombie:
                return see_exit(step);
            default:
                return {};  // become: the tool is done. The others are no steps of a tool
        }
    }
    [[nodiscard]] int needed(const Step& step) const { return plan_.barriers[at(step.barrier)].needed; }

    Result<> see_exit(const Step& step) {
        const bool reap = step.act == Act::reap;
        Exit seen;
        auto done = until([&] {
            seen = child_exit(shared_.board->entry(step.process).pid, reap, false);
            return seen.exited || seen.number != 0;
        });
        if (!done) return done;
        const bool fits = reap ? seen.status == 0 : status_fits(shared_, step.process, seen.status);
        if (seen.number == 0 && fits) return {};
        shared_.board->fail(0, static_cast<int>(shared_.board->entry(0).step.load()),
                            seen.number != 0 ? Mishap::call : Mishap::status,
                            seen.number != 0 ? seen.number : seen.status);
        return std::unexpected(what_failed());
    }

    Result<> see_all_arrive() {
        std::size_t next = 1;
        return until([&] {
            for (; next < plan_.processes.size(); ++next) {
                Entry& entry = shared_.board->entry(static_cast<int>(next));
                const Stage stage = entry.stage;
                if (stage != Stage::arrived && stage != Stage::leaving) return false;
                if (stage == Stage::leaving) continue;
                if (const auto stat = proc::stat(entry.pid.load().number())) entry.started = stat->start_time;
            }
            return true;
        });
    }

    // Waits for something that others do, as long as there is no failure, nobody has died and there is time.
    template <class Condition>
    Result<> until(Condition condition) {
        Board& board = *shared_.board;
        int pause_ms = 1;
        for (auto looked = Clock::now();;) {
            const std::uint32_t pulses = board.pulses();
            if (board.stopped()) return std::unexpected(what_failed());
            if (condition()) return {};
            const auto now = Clock::now();
            if (now >= end_) return std::unexpected(late());
            if (now - looked > std::chrono::milliseconds(200)) {
                looked = now;
                CHECK_OK(casualty());
            }
            board.sleep_on_pulse(pulses, pause_ms);
            pause_ms = std::min(pause_ms * 2, 50);
        }
    }

    [[nodiscard]] std::string doing(int process) const {
        const Process& who = plan_.processes[at(process)];
        const Entry& entry = shared_.board->entry(process);
        const std::uint32_t step = entry.step;
        return fmt::format("{} (pid {}) at: {}", who.name, entry.pid.load(),
                           step < who.steps.size() ? describe(plan_, who.steps[step]) : "its end");
    }

    // Somebody who was killed from outside: no failure is reported, and all would wait for it until the
    // deadline.
    Result<> casualty() {
        for (int process = 1; process < static_cast<int>(plan_.processes.size()); ++process) {
            Entry& entry = shared_.board->entry(process);
            const Stage stage = entry.stage;
            if (stage != Stage::building && stage != Stage::arrived) continue;
            if (lives(proc::stat(entry.pid.load().number()))) continue;
            if (entry.stage != stage) continue;  // it has just left as planned
            return fail("{} has died while the forest was being made, {}", plan_.processes[at(process)].name,
                        stage == Stage::arrived ? "when it had its ids" : doing(process));
        }
        return {};
    }

    [[nodiscard]] Error late() const {
        std::string text = fmt::format("the processes were not there within {} ms", deadline_.count());
        int named = 0;
        for (int process = 0; process < static_cast<int>(plan_.processes.size()); ++process) {
            const Stage stage = shared_.board->entry(process).stage;
            if (stage != Stage::building && stage != Stage::given_up) continue;
            if (++named <= 8) text += "; " + doing(process);
        }
        if (named > 8) text += fmt::format("; and {} more", named - 8);
        return {.what = text, .code = ExitCode::timed_out};
    }

    [[nodiscard]] Error what_failed() const {
        const Failure& failure = shared_.board->failure();
        for (int i = 0; failure.complete.load() == 0 && i < 100; ++i) ::usleep(1000);
        if (failure.complete.load() == 0)
            return {.what = "a process failed and died before it could say why"};
        const Process& who = plan_.processes[at(failure.process)];
        const Step& step = who.steps[at(failure.step)];
        const std::string head = fmt::format("{}: {}", who.name, describe(plan_, step));
        switch (failure.mishap) {
            case Mishap::call:
                if (step.act == Act::fork) return fork_failed(head, step, failure.number);
                return {.what = fmt::format("{}: {}", head, std::strerror(failure.number)),
                        .number = failure.number};
            case Mishap::status:
                return {.what = fmt::format("{}: its wait status is {:#x}", head, failure.number)};
            case Mishap::returned:
                return {.what = step.act == Act::become
                                    ? fmt::format("{}: the program's start returned", who.name)
                                    : fmt::format("{}: survived signal {}", who.name, failure.number)};
        }
        return {.what = head};
    }

    [[nodiscard]] Error fork_failed(const std::string& head, const Step& step, int number) const {
        const Process& child = plan_.processes[at(step.process)];
        std::string why = std::strerror(number);
        if (shared_.how.exact_ids && child.exact) {
            if (number == EEXIST) {
                why = who_has(kernel_id_of_same_number(child.id)) + "; end it, or restart with --ids=virtual";
            } else if (number == EPERM) {
                why =
                    "only root, or a user in a pid namespace of its own, may choose pids; restart with "
                    "--ids=virtual";
            } else if (number == EINVAL) {
                why = fmt::format(
                    "pid {} is beyond /proc/sys/kernel/pid_max here; restart with --ids=virtual", child.id);
            }
        } else if (number == EAGAIN) {
            why += " (RLIMIT_NPROC, or the limit of the cgroup's pids controller)";
        }
        return {.what = fmt::format("{}: {}", head, why), .number = number};
    }

    const Plan& plan_;
    std::chrono::milliseconds deadline_;
    Clock::time_point end_;
    CoreDirectory cores_;
    Shared shared_;
};

}  // namespace

Result<Forest> execute(const Plan& plan, const Execution& how) {
    return Executing(plan, how).run();
}

namespace {

// Is the pid still the process that the board knows, and not a stranger's by now? One under way has the
// tool's executable, an arrived one may have execed but has its start time.
bool still_ours(const Entry& entry, pid_t pid, const Result<proc::Stat>& stat) {
    if (!lives(stat)) return false;
    if (entry.started != 0) return stat->start_time == entry.started;
    const std::string exe = fmt::format("/proc/{}/exe", pid);
    std::error_code error;
    // Who exits has no executable any more, long before it is a zombie if it has much memory to give back.
    (void)std::filesystem::read_symlink(exe, error);
    if (error == std::errc::no_such_file_or_directory) return true;
    // A tool that isn't dumpable (file capabilities, an executable that can't be read) has such children.
    if (error == std::errc::permission_denied) return ::kill(pid, 0) == 0;
    return std::filesystem::equivalent(exe, "/proc/self/exe", error);
}

}  // namespace

std::vector<KernelId> Forest::kill_all() {
    const Subreaper catch_orphans(true);  // so that they can be reaped here; those orphaned before are init's
    board_->stop();
    const auto began = Clock::now();
    const int count = static_cast<int>(board_->processes());
    std::vector<KernelId> left;
    // Twice without anybody: a child may have been born before the stop and awaited after the first look.
    for (int quiet = 0; quiet < 2 && Clock::now() - began < std::chrono::seconds(5);) {
        left.clear();
        bool going = false;
        for (int process = 1; process < count; ++process) {
            const Entry& entry = board_->entry(process);
            const Stage stage = entry.stage;
            const pid_t pid = entry.pid.load().number();
            // Awaited for good only if its parent was killed before the fork; so not for ever.
            if (stage == Stage::awaited && pid == 0 && Clock::now() - began < std::chrono::seconds(2))
                going = true;
            if (pid <= 0 || stage == Stage::unborn || !still_ours(entry, pid, proc::stat(pid))) continue;
            // Who exits by itself, as planned or because of a failure, is on its way.
            if (stage == Stage::leaving || stage == Stage::given_up) {
                going = true;
                continue;
            }
            // Those under way see the stop by themselves, unless they are stopped.
            if (stage == Stage::arrived || Clock::now() - began > std::chrono::milliseconds(300))
                ::kill(pid, SIGKILL);
            left.emplace_back(pid);
        }
        const bool over = left.empty() && !going;
        quiet = over ? quiet + 1 : 0;
        ::usleep(over ? 5'000 : 500);
    }
    // All zombies have passed to the caller or to init by now.
    for (int process = 1; process < count; ++process)
        if (const KernelId pid = board_->entry(process).pid; pid.known()) (void)child_exit(pid, true, false);
    return left;
}

}  // namespace cairn::restart::forest
