// Forests made of real processes, compared with what /proc says.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "common/fd.h"
#include "common/proc.h"
#include "restart/forest/execute.h"
#include "restart/forest/simulate.h"
#include "test/unit/forest_history.h"

namespace cairn::restart::forest {
namespace {

using test::History;
using test::Manner;

std::optional<Seen> look(KernelId pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string line;
    if (!std::getline(file, line)) return {};
    std::istringstream rest(line.substr(line.rfind(')') + 1));
    char state = 0;
    Seen seen{.pid = pid};
    int ppid = 0, pgid = 0, sid = 0;
    rest >> state >> ppid >> pgid >> sid;
    seen.ppid = KernelId(ppid);
    seen.pgid = KernelId(pgid);
    seen.sid = KernelId(sid);
    if (state == 'X') return {};  // reaped, about to vanish
    seen.zombie = state == 'Z';
    std::string field;
    for (int number = 7; number <= 51; ++number) rest >> field;
    rest >> seen.wait_status;
    return seen;
}

// Who becomes the parent of the orphans here.
KernelId find_adoptive() {
    auto* told = static_cast<std::atomic<pid_t>*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (::fork() == 0) {
        const pid_t middle = ::getpid();
        if (::fork() == 0) {
            while (::getppid() == middle) ::usleep(500);
            told[1] = ::getpid();
            told[0] = ::getppid();
            ::_exit(0);
        }
        ::_exit(0);
    }
    ::wait(nullptr);
    while (told[0] == 0) ::usleep(500);
    const pid_t adoptive = told[0];
    if (adoptive == ::getpid()) ::waitpid(told[1], nullptr, 0);  // run as a namespace's init
    ::munmap(told, 4096);
    return KernelId(adoptive);
}

struct ForestExecute : testing::Test {
    // What each process says of itself where /proc doesn't.
    struct Said {
        std::atomic<int> subreaper, blocked;
    };
    static constexpr std::size_t most = 100'000;  // pids of the model

    ForestExecute() {
        if (::getpgrp() == 0) ::setpgid(0, 0);  // under unshare -p
        // Children are counted: those that earlier tests of this process have left as zombies are none.
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        // One at a time on a machine: they choose pids, and would choose each other's. A POSIX lock, which
        // the processes of the forest don't inherit.
        one_at_a_time_ = Fd(::open("/tmp/cairn-forest-execute", O_RDWR | O_CREAT | O_CLOEXEC, 0666));
        struct flock whole {};
        whole.l_type = F_WRLCK;
        whole.l_whence = SEEK_SET;
        while (one_at_a_time_ && ::fcntl(one_at_a_time_.get(), F_SETLKW, &whole) != 0 && errno == EINTR) {
        }
        said_ = static_cast<Said*>(
            ::mmap(nullptr, most * sizeof(Said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        how_.become = [this](const Node& node) {
            int subreaper = 0;
            ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
            sigset_t mask, pending;
            ::sigprocmask(SIG_SETMASK, nullptr, &mask);
            ::sigpending(&pending);
            int blocked = 0;
            for (int number = 1; number < 32; ++number)
                blocked += sigismember(&mask, number) + sigismember(&pending, number);
            said(node.pid).blocked = blocked;
            said(node.pid).subreaper = subreaper + 1;
            // A killed test leaves nobody behind. EPERM: it is another user's.
            while (::kill(tool_, 0) == 0 || errno == EPERM) ::usleep(200'000);
            ::_exit(0);
        };
    }
    ~ForestExecute() override { ::munmap(said_, most * sizeof(Said)); }

    static bool may_choose_pids() { return ::geteuid() == 0; }

    [[nodiscard]] Said& said(Id pid) const { return said_[static_cast<std::size_t>(pid.number()) % most]; }

    // "" or what differs.
    std::string round_trip(const std::vector<Node>& nodes) {
        auto plan = make_plan(nodes);
        if (!plan) return plan.error().what;
        for (const Node& node : plan->nodes) said(node.pid).subreaper = 0;
        auto forest = execute(*plan, how_);
        if (!forest) return forest.error().what;
        std::string wrong = differences(*plan, *forest);
        const std::vector<KernelId> left = forest->kill_all();
        if (!left.empty()) return fmt::format("process {} is left over", left.front());
        for (std::size_t i = 1; i < forest->pids().size(); ++i) {
            const auto seen = look(forest->pids()[i]);
            if (seen && seen->ppid == KernelId(::getpid()))
                return fmt::format("{} is not reaped", plan->processes[i].name);
            // Orphans are for init to reap, in its own time.
            if (seen && !seen->zombie) return fmt::format("{} still lives", plan->processes[i].name);
        }
        return wrong;
    }

    std::string differences(const Plan& plan, const Forest& forest) const {
        std::map<KernelId, Seen> seen;
        const std::vector<KernelId>& pids = forest.pids();
        for (std::size_t i = 1; i < pids.size(); ++i) {
            auto now = look(pids[i]);
            const Process& process = plan.processes[i];
            if (process.node < 0) {
                if (now && now->ppid == KernelId(::getpid())) return process.name + " is left over";
                continue;
            }
            if (!now) return process.name + " is not there";
            const Node& node = plan.nodes[static_cast<std::size_t>(process.node)];
            if (how_.exact_ids && !same_number(node.pid, pids[i]))
                return fmt::format("{} has pid {}", process.name, pids[i]);
            if (forest.made.at(node.pid) != pids[i])
                return fmt::format("{} is not in the table", process.name);
            if (!node.zombie) {
                // It was found running when execute returned; give it the time to say what it has to.
                for (int wait = 0; said(node.pid).subreaper == 0 && wait < 10'000; ++wait) ::usleep(1'000);
                now->subreaper = said(node.pid).subreaper == 2;
                if (said(node.pid).blocked != 0) return process.name + " has signals blocked or pending";
            }
            seen[pids[i]] = *now;
        }
        const auto done = compare(plan, pids, seen,
                                  {.tool = KernelId(::getpid()),
                                   .tool_sid = KernelId(::getsid(0)),
                                   .tool_pgid = KernelId(::getpgrp()),
                                   .adoptive = adoptive_});
        return done ? std::string() : done.error().what;
    }

    Said* said_ = nullptr;
    Fd one_at_a_time_;
    pid_t tool_ = ::getpid();
    KernelId adoptive_ = find_adoptive();
    Execution how_;
};

std::vector<Node> history(std::uint32_t seed) {
    const Manner manner{.steps = 30 + static_cast<int>(seed % 90),
                        .most_alive = 15,
                        .subreapers_cease = seed % 4 == 0,
                        .outside = seed % 3 != 0};
    return History(seed, manner).nodes();
}

#ifdef __SANITIZE_ADDRESS__
constexpr std::uint32_t histories = 20;  // a fork has the sanitizer's shadow to copy too
#else
constexpr std::uint32_t histories = 200;
#endif

TEST_F(ForestExecute, twoHundredHistoriesWithAnyIds) {
    std::size_t processes = 0;
    for (std::uint32_t seed = 0; seed < histories; ++seed) {
        const std::vector<Node> nodes = history(seed);
        processes += nodes.size();
        ASSERT_EQ(round_trip(nodes), "") << "seed " << seed;
    }
    EXPECT_GT(processes, 5 * histories);
}

// Ids that name a process, a group or a session now.
std::set<int> ids_in_use() {
    std::set<int> used;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const pid_t pid = std::atoi(entry.path().filename().c_str());
        const auto stat = pid > 0 ? proc::stat(pid) : Result<proc::Stat>(fail("no process"));
        if (stat) used.insert({pid, stat->pgrp, stat->session});
    }
    return used;
}

// The pid that the kernel gave out last; it goes on from there, and starts again behind the greatest.
int last_given() {
    std::string load[4];
    int last = 0;
    std::ifstream file("/proc/loadavg");
    for (std::string& word : load) file >> word;
    file >> last;
    return last;
}

// Moves a history's pids to a place of their own, another at each call, where nobody is, nor will be soon:
// others here have pids and get new ones, and init may take its time to reap who was there before.
std::vector<Node> moved(std::vector<Node> nodes) {
    constexpr int soon = 4'000;
    static int pid_max = 0, next = 0;
    if (pid_max == 0) std::ifstream("/proc/sys/kernel/pid_max") >> pid_max;
    pid_max = std::min(pid_max, 1 << 20);
    int lowest = 1 << 30, highest = 0;
    for (const Node& node : nodes)
        for (const Id id : {node.pid, node.ppid, node.sid, node.pgid}) {
            if (id <= Id(1)) continue;
            lowest = std::min(lowest, id.number());
            highest = std::max(highest, id.number());
        }
    if (nodes.empty()) return nodes;
    const int given = last_given();  // before the look: who is born meanwhile may be missed by it
    const std::set<int> used = ids_in_use();
    int base = 0;
    for (int wraps = 0; wraps < 2;) {
        if (next - (highest - lowest) < pid_max / 3) {
            next = pid_max - 100;
            ++wraps;
        }
        base = next - (highest - lowest);
        if (given <= next && base < given + soon) {
            next = given - 1;
            continue;
        }
        const auto in_the_way = used.lower_bound(base);
        if (in_the_way == used.end() || *in_the_way > next) break;
        next = *in_the_way - 1;
    }
    next = base - 1;
    for (Node& node : nodes)
        for (Id* id : {&node.pid, &node.ppid, &node.sid, &node.pgid})
            if (*id > Id(1)) *id = Id(id->number() + base - lowest);
    return nodes;
}

TEST_F(ForestExecute, twoHundredHistoriesWithTheirOldIds) {
    if (!may_choose_pids()) GTEST_SKIP() << "only root chooses pids";
    how_.exact_ids = true;
    for (std::uint32_t seed = 0; seed < histories; ++seed) {
        std::string wrong;
        for (int tries = 0; tries < 20; ++tries) {
            wrong = round_trip(moved(history(1'000 + seed)));
            if (wrong.find(" taken") == std::string::npos) break;
        }
        ASSERT_EQ(wrong, "") << "seed " << seed;
    }
}

// The kernel offers helpers exactly the pids that are asked for later.
// What `body` returns in a pid namespace of its own, where nobody else takes ids; none: there can't be one
// here.
std::optional<std::string> alone(const std::function<std::string()>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    const Fd from(ends[0]);
    Fd to(ends[1]);
    const pid_t outside = ::fork();
    if (outside == 0) {
        if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(77);
        const pid_t init = ::fork();
        if (init == 0) {
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
            if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) ::_exit(77);
            const pid_t tool = ::fork();
            if (tool == 0) {
                ::setsid();
                const std::string said = body();
                (void)!::write(to.get(), said.data(), said.size());
                ::_exit(0);
            }
            int status = 0;
            for (pid_t gone = 0; gone != tool;) gone = ::waitpid(-1, &status, 0);
            ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
        }
        int status = 0;
        ::waitpid(init, &status, 0);
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    to.reset();
    std::string said;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(from.get(), bytes, sizeof bytes)) > 0;)
        said.append(bytes, static_cast<std::size_t>(n));
    int status = 0;
    ::waitpid(outside, &status, 0);
    if (status == 77 << 8) return {};
    return status == 0 ? said : fmt::format("it ended with status {}: {}", status, said);
}

// The ids that the kernel gives out next are those of the forest: whoever forks before they are taken sits on
// one.
TEST_F(ForestExecute, helpersDontSitOnOldIds) {
    if (!may_choose_pids()) GTEST_SKIP() << "only root chooses pids";
    how_.exact_ids = true;
    for (int time = 0; time < 5; ++time) {
        const auto wrong = alone([&] {
            tool_ = ::getpid();
            adoptive_ = find_adoptive();
            const pid_t last = ::fork();
            if (last == 0) ::_exit(0);
            ::waitpid(last, nullptr, 0);
            std::vector<Node> nodes;
            for (int pid = last + 1; pid < last + 9; ++pid)
                nodes.push_back({.pid = Id(pid),
                                 .ppid = Id(1),
                                 .sid = Id(last + 1),
                                 .pgid = Id(pid % 2 == 0 ? pid : last + 1),
                                 .orphan = true});
            nodes[0].pgid = nodes[0].pid;
            return round_trip(nodes);
        });
        if (!wrong) GTEST_SKIP() << "no pid namespace can be had";
        EXPECT_EQ(*wrong, "");
    }
}

TEST_F(ForestExecute, aCoreDumpShowsInTheStatus) {
    std::string pattern;
    std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    if (pattern.empty() || pattern[0] == '|' || pattern.find('/') != std::string::npos ||
        limit.rlim_max < 4096)
        GTEST_SKIP() << "cores can't be dumped aside here";
    EXPECT_EQ(round_trip({{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)},
                          {.pid = Id(11),
                           .ppid = Id(10),
                           .sid = Id(10),
                           .pgid = Id(10),
                           .zombie = true,
                           .wait_status = 0x8b},
                          {.pid = Id(12),
                           .ppid = Id(10),
                           .sid = Id(10),
                           .pgid = Id(10),
                           .zombie = true,
                           .wait_status = 0x0b}}),
              "");
}

TEST_F(ForestExecute, exitSignalsDontKillTheParent) {
    EXPECT_EQ(round_trip({{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)},
                          {.pid = Id(11),
                           .ppid = Id(10),
                           .sid = Id(10),
                           .pgid = Id(10),
                           .zombie = true,
                           .exit_signal = SIGUSR1},
                          {.pid = Id(12),
                           .ppid = Id(10),
                           .sid = Id(10),
                           .pgid = Id(10),
                           .zombie = true,
                           .exit_signal = 0}}),
              "");
}

TEST_F(ForestExecute, aSubreaperAsToolDoesntKeepTheOrphans) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    EXPECT_EQ(round_trip({{.pid = Id(10), .ppid = Id(1), .sid = Id(10), .pgid = Id(10), .orphan = true}}),
              "");
    int still = 0;
    ::prctl(PR_GET_CHILD_SUBREAPER, &still);
    EXPECT_EQ(still, 1);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(ForestExecute, zombiesOfAToolThatIgnoresSigchld) {
    ::signal(SIGCHLD, SIG_IGN);
    EXPECT_EQ(round_trip({{.pid = Id(10),
                           .ppid = Id(5),
                           .sid = Id(10),
                           .pgid = Id(10),
                           .zombie = true,
                           .wait_status = 0x700},
                          {.pid = Id(11), .ppid = Id(5), .sid = Id(11), .pgid = Id(11)},
                          {.pid = Id(12),
                           .ppid = Id(11),
                           .sid = Id(11),
                           .pgid = Id(11),
                           .zombie = true,
                           .wait_status = 9}}),
              "");
    ::signal(SIGCHLD, SIG_DFL);
}

std::size_t children_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/task/{}/children", pid, pid));
    return static_cast<std::size_t>(std::distance(std::istream_iterator<pid_t>(file), {}));
}
std::size_t children() {
    return children_of(::getpid());
}

TEST_F(ForestExecute, aTakenPidIsNamedAndNobodyIsLeft) {
    if (!may_choose_pids()) GTEST_SKIP() << "only root chooses pids";
    how_.exact_ids = true;
    const pid_t other = ::fork();
    if (other == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
    }
    std::vector<Node> nodes;
    std::string wrong;
    for (int tries = 0; tries < 20; ++tries) {
        nodes = moved({{.pid = Id(10), .ppid = Id(9), .sid = Id(10), .pgid = Id(10)},
                       {.pid = Id(11), .ppid = Id(10), .sid = Id(10), .pgid = Id(11)},
                       {.pid = Id(12), .ppid = Id(1), .sid = Id(10), .pgid = Id(10), .orphan = true}});
        nodes.push_back({.pid = Id(other), .ppid = nodes[2].pid, .sid = nodes[0].pid, .pgid = nodes[0].pid});
        const auto plan = make_plan(nodes);
        ASSERT_TRUE(plan) << plan.error().what;
        const auto forest = execute(*plan, how_);
        ASSERT_FALSE(forest);
        EXPECT_EQ(forest.error().number, EEXIST) << forest.error().what;
        wrong = forest.error().what;
        nodes.pop_back();
        EXPECT_EQ(children(), 1u);
        for (const Node& node : nodes) {
            const auto seen = look(kernel_id_of_same_number(node.pid));
            // A stranger may have the pid already; nobody else is in this session.
            EXPECT_TRUE(!seen || !same_number(nodes[0].pid, seen->sid) ||
                        (seen->zombie && seen->ppid == adoptive_))
                << fmt::format("{}: parent {}, session {}, zombie {}", node.pid, seen->ppid, seen->sid,
                               seen->zombie);
        }
        if (wrong.find(fmt::format("pid {} is taken", other)) != std::string::npos) break;
    }
    EXPECT_EQ(
        wrong,
        fmt::format(
            "process {}: fork process {}: pid {} is taken by process {} (cairn_unit); end it, or restart "
            "with --ids=virtual",
            nodes[2].pid, other, other, other));
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
}

TEST_F(ForestExecute, aPidThatIsTakenAsASessionIsNamed) {
    if (!may_choose_pids()) GTEST_SKIP() << "only root chooses pids";
    how_.exact_ids = true;
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t leader = ::fork();
    if (leader == 0) {
        ::setsid();
        const pid_t member = ::fork();
        if (member == 0)
            for (;;) ::pause();
        (void)!::write(ends[1], &member, sizeof member);
        ::_exit(0);
    }
    pid_t member = 0;
    ASSERT_EQ(::read(ends[0], &member, sizeof member), static_cast<ssize_t>(sizeof member));
    ::waitpid(leader, nullptr, 0);
    const auto plan = make_plan({{.pid = Id(leader), .ppid = Id(5), .sid = Id(leader), .pgid = Id(leader)}});
    const auto forest = execute(*plan, how_);
    ::kill(member, SIGKILL);
    ASSERT_FALSE(forest);
    EXPECT_NE(forest.error().what.find(fmt::format("as the id of the session of process {}", member)),
              std::string::npos)
        << forest.error().what;
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_F(ForestExecute, aForkThatFailsEndsAll) {
    const pid_t alone = ::fork();  // for a limit of its own, which doesn't bind root: so another uid
    if (alone == 0) {
        if (::geteuid() == 0 && ::setuid(64'321) != 0) ::_exit(77);
        const rlimit few{.rlim_cur = 12, .rlim_max = 12};
        ::setrlimit(RLIMIT_NPROC, &few);
        std::vector<Node> nodes{{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)}};
        for (int pid = 11; pid < 60; ++pid)
            nodes.push_back({.pid = Id(pid), .ppid = Id(pid - 1), .sid = Id(10), .pgid = Id(10)});
        const auto plan = make_plan(nodes);
        const auto forest = execute(*plan, how_);
        const bool good = !forest && forest.error().number == EAGAIN && children() == 0 &&
                          forest.error().what.find("RLIMIT_NPROC") != std::string::npos;
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(alone, &status, 0);
    if (status == 77 << 8) GTEST_SKIP() << "only one user in this namespace";
    EXPECT_EQ(status, 0);
}

TEST_F(ForestExecute, aLateProcessIsNamed) {
    how_.deadline = std::chrono::milliseconds(400);
    how_.dress = [](const Node&) {
        for (;;) ::pause();
    };
    const auto plan =
        make_plan({{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)},
                   {.pid = Id(11), .ppid = Id(10), .sid = Id(10), .pgid = Id(10), .zombie = true}});
    const auto forest = execute(*plan, how_);
    ASSERT_FALSE(forest);
    EXPECT_EQ(forest.error().code, ExitCode::timed_out);
    EXPECT_NE(forest.error().what.find("process 11"), std::string::npos) << forest.error().what;
    EXPECT_NE(forest.error().what.find("wait until there is a zombie of process 11"), std::string::npos);
    EXPECT_EQ(children(), 0u);
}

TEST_F(ForestExecute, aProcessThatIsKilledMeanwhileIsNamed) {
    how_.dress = [](const Node&) { ::kill(::getppid(), SIGKILL); };
    const auto plan =
        make_plan({{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)},
                   {.pid = Id(11), .ppid = Id(10), .sid = Id(10), .pgid = Id(10), .zombie = true}});
    const auto began = std::chrono::steady_clock::now();
    const auto forest = execute(*plan, how_);
    ASSERT_FALSE(forest);
    EXPECT_NE(forest.error().what.find("process 10 has died"), std::string::npos) << forest.error().what;
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
    EXPECT_EQ(children(), 0u);
}

TEST_F(ForestExecute, nobodyOutlivesAToolThatIsKilledMeanwhile) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t tool = ::fork();
    if (tool == 0) {
        auto plan = make_plan({{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)},
                               {.pid = Id(11), .ppid = Id(10), .sid = Id(10), .pgid = Id(11)},
                               {.pid = Id(12), .ppid = Id(11), .sid = Id(12), .pgid = Id(12)}});
        plan->barriers.push_back({"the end of days", 1});
        for (Process& process : plan->processes)
            if (process.role == Role::node)
                process.steps.insert(
                    process.steps.end() - 1,
                    {.act = Act::wait, .barrier = static_cast<int>(plan->barriers.size()) - 1});
        how_.deadline = std::chrono::minutes(5);
        (void)execute(*plan, how_);
        ::_exit(0);
    }
    while (children_of(tool) == 0) ::usleep(1'000);
    ::usleep(50'000);
    ::kill(tool, SIGKILL);
    const auto began = std::chrono::steady_clock::now();
    int ended = 0;
    while (::wait(nullptr) > 0) ++ended;
    EXPECT_EQ(ended, 4);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace cairn::restart::forest
