#include "restart/forest/live.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "common/inner_ids.h"

namespace cairn::restart::forest {

namespace {

constexpr int slice_ms = 100;  // of a wait, before looking whether the tool still lives

// A child made by the bare system call must have glibc's cached thread id set, as glibc's own fork does it:
// by CLONE_CHILD_SETTID at the address which set_tid_address(2) was told when the program started.
__u64 thread_id_address() {
    __u64 address = 0;
    return ::prctl(PR_GET_TID_ADDRESS, &address) == 0 ? address : 0;  // needs CONFIG_CHECKPOINT_RESTORE
}

// `wanted`: ids in the pid namespaces, the innermost first; none: any. `as_sibling`: the parent is the
// caller's.
KernelId raw_fork(std::vector<pid_t> wanted, int exit_signal, bool as_sibling) {
    clone_args args{};
    args.exit_signal = as_sibling ? 0 : static_cast<__u64>(exit_signal);
    if (const __u64 address = thread_id_address(); address != 0) {
        args.flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        args.child_tid = address;
    }
    if (as_sibling) args.flags |= CLONE_PARENT;
    args.set_tid = wanted.empty() ? 0 : reinterpret_cast<__u64>(wanted.data());
    args.set_tid_size = wanted.size();
    const KernelId pid(static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args)));
    // Where a filter hides clone3 (ENOSYS, in containers) the old call does, as long as no pid is asked for.
    if (pid < KernelId() && errno == ENOSYS && wanted.empty() && !as_sibling) return KernelId(::fork());
    return pid;
}

class Life {
  public:
    Life(const Shared& shared, int process)
        : shared_(shared),
          board_(*shared.board),
          process_(process),
          self_(shared.plan.processes[at(process)]) {}

    [[noreturn]] void run() {
        set_up_signals();
        Entry& entry = board_.entry(process_);
        if (self_.space == 0) {
            entry.pid = KernelId(::getpid());
        } else {
            entry.inner = KernelId(::getpid());
            entry.pid = outer_id();
            if (!has_ids_around()) fail(Mishap::call, EEXIST);
            if (self_.inner_id == 1) (void)hand_out(last_id() + 1);
        }
        entry.stage = Stage::building;
        for (std::size_t i = 0; i < self_.steps.size(); ++i) {
            entry.step = static_cast<std::uint32_t>(i);
            if (board_.stopped()) give_up();
            carry_out(self_.steps[i]);
        }
        give_up();  // a plan ends with exit or become
    }

  private:
    // The tool's handlers have no business here. Whoever ignores SIGCHLD has no zombies, and hands that on
    // over exec.
    void set_up_signals() const {
        for (int number = 1; number <= SIGRTMAX; ++number) {
            struct sigaction action {};
            if (::sigaction(number, nullptr, &action) != 0) continue;
            const bool handled = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
            if (handled || number == SIGCHLD) ::signal(number, SIG_DFL);
        }
        // A zombie's exit signal may be one that kills; its parent isn't its program yet.
        for (const int number : shared_.exit_signals) ::signal(number, SIG_IGN);
        sigset_t none;
        sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
    }

    // /proc is the tool's, and says what the tool calls us.
    static KernelId outer_id() {
        char text[32] = {};
        (void)!::readlink("/proc/self", text, sizeof text - 1);
        return KernelId(std::atoi(text));
    }

    // What a clerk was asked for, and somebody else may have taken.
    [[nodiscard]] bool has_ids_around() const {
        if (self_.ids_around.empty()) return true;
        const auto ids = proc::inner_ids(entry_pid(), entry_pid());
        if (!ids || ids->in.size() != self_.ids_around.size() + 1) return false;
        for (std::size_t i = 0; i < self_.ids_around.size(); ++i)
            if (ids->in[i + 1].pid != self_.ids_around[i]) return false;
        return true;
    }
    [[nodiscard]] pid_t entry_pid() const { return board_.entry(process_).pid.load().number(); }

    // Behind it are the ids of helpers, none of which a program is to have.
    [[nodiscard]] std::int32_t last_id() const { return shared_.plan.spaces.at(self_.space).last; }

    // To the next who is born in this pid namespace and has none that was chosen; if it is somebody's, the
    // next free one.
    static bool hand_out(std::int32_t id) {
        const std::string text = std::to_string(id - 1);
        const Fd file(::open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC));
        return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    }

    [[noreturn]] void give_up() const {
        board_.entry(process_).stage = Stage::given_up;
        board_.pulse();
        ::_exit(1);
    }
    [[noreturn]] void fail(Mishap mishap, int number) const {
        board_.fail(process_, static_cast<int>(board_.entry(process_).step.load()), mishap, number);
        give_up();
    }
    void must(bool done) const {
        if (!done) fail(Mishap::call, errno);
    }

    void carry_out(const Step& step) {
        switch (step.act) {
            case Act::fork:
                if (auto child = fork_child(shared_, step.process); !child)
                    fail(Mishap::call, child.error().number);
                return;
            case Act::setsid:
                must(::setsid() >= 0);
                if (shared_.how.lead) shared_.how.lead(self_.id);
                return;
            case Act::new_pids: {
                const Node& first = shared_.plan.nodes[at(shared_.plan.processes[at(step.process)].node)];
                if (const int number = shared_.how.own_pids ? shared_.how.own_pids(first) : 0; number != 0)
                    fail(Mishap::call, number);
                return must(::unshare(CLONE_NEWPID) == 0);
            }
            case Act::join_group:
                return must(::setpgid(0, group_of(shared_, process_, step.process).number()) == 0);
            case Act::subreaper:
                return must(::prctl(PR_SET_CHILD_SUBREAPER, step.on ? 1 : 0, 0, 0, 0) == 0);
            case Act::signal:
                return board_.signal(step.barrier, needed(step));
            case Act::wait:
                return wait(step);
            case Act::serve:
                return serve(step);
            case Act::reap:
            case Act::see_zombie:
                return see_exit(step);
            case Act::exit:
                leave();
            case Act::become:
                become();
        }
    }

    [[nodiscard]] int needed(const Step& step) const {
        return shared_.plan.barriers[at(step.barrier)].needed;
    }

    void wait(const Step& step) const {
        while (!board_.reached(step.barrier, needed(step))) {
            if (board_.stopped()) give_up();
            board_.sleep_on(step.barrier, needed(step), slice_ms);
            pollfd tool{.fd = shared_.tool_alive.get(), .events = POLLIN, .revents = 0};
            if (::poll(&tool, 1, 0) > 0) give_up();
        }
    }

    // As long as it is asked it is in a hurry.
    void serve(const Step& step) const {
        for (int idle = 0; !board_.reached(step.barrier, needed(step)); ++idle) {
            if (const std::int32_t id = board_.asked(process_); id != 0) {
                must(hand_out(id));
                board_.answer();
                idle = 0;
            }
            if (board_.stopped()) give_up();
            constexpr int looks_at_tool = 1000;
            pollfd tool{.fd = shared_.tool_alive.get(), .events = POLLIN, .revents = 0};
            if (idle % looks_at_tool == 0 && ::poll(&tool, 1, 0) > 0) give_up();
            ::usleep(50);
        }
        must(hand_out(last_id() + 1));
    }

    // Needs no deadline: the child gives up when it is told to, and can't outlast the tool.
    void see_exit(const Step& step) const {
        const bool reap = step.act == Act::reap;
        const Exit seen = child_exit(called_by(shared_, process_, step.process), reap, true);
        if (board_.stopped()) give_up();
        if (seen.number != 0) fail(Mishap::call, seen.number);
        if (reap ? seen.status != 0 : !status_fits(shared_, step.process, seen.status))
            fail(Mishap::status, seen.status);
    }

    [[noreturn]] void leave() {
        if (self_.role == Role::node) die_as(shared_.plan.nodes[at(self_.node)]);
        board_.entry(process_).stage = Stage::leaving;
        board_.pulse();
        ::_exit(0);
    }

    [[noreturn]] void die_as(const Node& node) {
        if (shared_.how.dress) shared_.how.dress(node);
        if (WIFSIGNALED(node.wait_status)) {
            // The flag can be had only by dumping core: one page of it (less is not begun), in a place that
            // is removed.
            const bool dumps = WCOREDUMP(node.wait_status) && !shared_.core_directory.empty() &&
                               ::chdir(shared_.core_directory.c_str()) == 0 &&
                               ::prctl(PR_SET_DUMPABLE, 1) == 0;
            // 1 stops a core_pattern with a pipe as well, which 0 doesn't (core(5)). Not dumpable would hide
            // the wait status in /proc from the next checkpoint.
            const rlim_t bytes = dumps ? 4096 : 1;
            const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
            ::setrlimit(RLIMIT_CORE, &limit);
        }
        board_.entry(process_).stage = Stage::leaving;
        board_.pulse();
        if (WIFEXITED(node.wait_status)) ::_exit(WEXITSTATUS(node.wait_status));
        const int number = WTERMSIG(node.wait_status);
        // glibc keeps 32 and 33 to itself; the system call takes them.
        struct {
            void (*handler)(int);
            unsigned long flags;
            void (*restorer)();
            unsigned long mask;
        } bare{.handler = SIG_DFL, .flags = 0, .restorer = nullptr, .mask = 0};
        ::syscall(SYS_rt_sigaction, number, &bare, nullptr, 8);
        unsigned long none = 0;
        ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, 8);
        ::kill(::getpid(), number);
        fail(Mishap::returned, number);
    }
    [[noreturn]] void become() {
        for (const int number : shared_.exit_signals) ::signal(number, SIG_DFL);
        board_.entry(process_).stage = Stage::arrived;
        board_.pulse();
        shared_.how.become(shared_.plan.nodes[at(self_.node)]);
        fail(Mishap::returned, 0);
    }

    const Shared& shared_;
    Board& board_;
    int process_;
    const Process& self_;
};

}  // namespace

namespace {
constexpr int most_waits_for_id = 200;
constexpr useconds_t wait_for_id_us = 10'000;
}  // namespace

KernelId called_by(const Shared& shared, int self, int other) {
    const Process &caller = shared.plan.processes[at(self)], &called = shared.plan.processes[at(other)];
    const Entry& entry = shared.board->entry(other);
    if (caller.space == 0) return entry.pid.load();
    const auto chain = chain_of(shared.plan.spaces, called.space);
    const auto level = static_cast<std::size_t>(std::ranges::find(chain, caller.space) - chain.begin());
    // Who is further in has the id that he has to have.
    return level == 0 || level > called.ids_around.size() ? entry.inner.load()
                                                          : KernelId(called.ids_around[level - 1]);
}

namespace {

// Asks the clerks, each for what the next birth is to have. False: all is stopped.
class Turn {
  public:
    Turn(const Shared& shared, int child)
        : board_(*shared.board),
          questions_(questions_of(shared.plan, child)),
          has_it_(!questions_.empty() && board_.take_turn()) {}
    ~Turn() {
        if (has_it_) board_.end_turn();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    [[nodiscard]] bool ask() const {
        return questions_.empty() || (has_it_ && std::ranges::all_of(questions_, [&](const Question& each) {
                                          return board_.ask(each.clerk, each.id);
                                      }));
    }

  private:
    Board& board_;
    std::vector<Question> questions_;
    bool has_it_;
};

}  // namespace

Result<KernelId> fork_child(const Shared& shared, int child) {
    const Process& process = shared.plan.processes[at(child)];
    const bool exact = shared.how.exact_ids && process.exact;
    const bool as_sibling =
        process.forker >= 0 && shared.plan.processes[at(process.forker)].role == Role::maker;
    std::vector<pid_t> wanted;
    if (process.inner_id != 0) wanted.push_back(process.inner_id);
    wanted.insert(wanted.end(), process.ids_around.begin(), process.ids_around.end());
    const auto chosen = process.space == 0 ? 0 : at(shared.plan.spaces.at(process.space).chosen);
    if (wanted.size() > chosen)
        wanted.resize(chosen);
    else if (exact && wanted.size() == process.ids_around.size() + (process.space == 0 ? 0 : 1))
        wanted.push_back(process.id.number());
    int exit_signal = SIGCHLD;
    // Not from the tool itself, which such a signal might kill.
    if (process.node >= 0 && process.forker != 0 && shared.plan.nodes[at(process.node)].zombie)
        exit_signal = shared.plan.nodes[at(process.node)].exit_signal;
    const auto reserved = [&](KernelId pid) {
        return !exact && process.space == 0 && std::ranges::binary_search(shared.reserved, pid);
    };
    // On a busy machine parent and child can both be kept from saying that it is there, for long.
    Entry& entry = shared.board->entry(child);
    entry.stage = Stage::awaited;
    sigset_t all, before;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before);  // no handler of the tool's may run in the child
    KernelId pid;
    int number = 0;
    // The kernel hands pids out upwards, so each round gets another.
    // Whoever has a number that is wanted may be about to go: a short-lived stranger, or one that was just
    // killed.
    int waits = exact ? most_waits_for_id : 0;
    const Turn turn(shared, child);
    for (std::size_t round = 0; round <= shared.reserved.size();) {
        if (!turn.ask()) {
            number = ECANCELED;
            break;
        }
        pid = raw_fork(wanted, exit_signal, as_sibling);
        number = pid < KernelId() ? errno : 0;
        // From within a user namespace of one's own only the ids in there may be chosen.
        if (number == EPERM && process.space != 0 && wanted.size() > chosen) {
            wanted.pop_back();
            continue;
        }
        if (pid == KernelId()) {
            if (reserved(KernelId(::getpid()))) ::_exit(0);
            Life(shared, child).run();
        }
        if (number == EEXIST && waits-- > 0) {
            ::usleep(wait_for_id_us);
            continue;
        }
        if (!pid.known() || !reserved(pid)) break;
        (void)child_exit(pid, true, true);
        number = EEXIST;
        ++round;
    }
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (number != 0) {
        entry.stage = Stage::unborn;
        errno = number;
        return fail_errno("fork of {}", process.name);
    }
    // The child writes it too: whoever of the two comes first. Of one in a pid namespace only whoever is
    // outside knows what the tool calls it.
    const std::uint64_t forkers = process.forker < 0 ? 0 : shared.plan.processes[at(process.forker)].space;
    if (forkers == 0)
        entry.pid = pid;
    else if (!as_sibling)
        entry.inner = pid;
    return pid;
}

KernelId group_of(const Shared& shared, int self, int leader) {
    if (leader == self) return {};
    return leader == 0 ? shared.tool_group : called_by(shared, self, leader);
}

Exit child_exit(KernelId child, bool reap, bool block) {
    siginfo_t info{};
    const int flags = WEXITED | __WALL | (reap ? 0 : WNOWAIT) | (block ? 0 : WNOHANG);
    while (::waitid(P_PID, static_cast<id_t>(child.number()), &info, flags) != 0)
        if (errno != EINTR) return {.number = errno};
    if (info.si_pid == 0) return {};
    const int status = info.si_code == CLD_EXITED ? info.si_status << 8
                                                  : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    return {.exited = true, .status = status};
}

bool status_fits(const Shared& shared, int process, int status) {
    const int expected = shared.plan.nodes[at(shared.plan.processes[at(process)].node)].wait_status;
    if (status == expected) return true;
    if (WIFSIGNALED(expected) && status == (expected & 0x7f)) {
        shared.board->cores_lost().fetch_add(1);
        return true;
    }
    return false;
}

}  // namespace cairn::restart::forest
