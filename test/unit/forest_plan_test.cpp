// Plans of forests, run on the model of the kernel.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>

#include "restart/forest/simulate.h"
#include "test/unit/forest_history.h"

namespace cairn::restart::forest {
namespace {

using test::History;
using test::Manner;

std::string print(const std::vector<Node>& nodes) {
    std::string text;
    for (const Node& node : nodes)
        text += fmt::format("pid {} ppid {} sid {} pgid {}{}{}{}{}{}\n", node.pid, node.ppid, node.sid,
                            node.pgid, node.zombie ? " zombie" : "", node.subreaper ? " subreaper" : "",
                            node.orphan ? " orphan" : "", node.session_outside ? " session-outside" : "",
                            node.group_outside ? " group-outside" : "");
    return text;
}

// Plans, and runs the plan in several orders; "" or what went wrong.
std::string round_trip(const std::vector<Node>& nodes, std::uint32_t seed) {
    const auto plan = make_plan(nodes);
    if (!plan) return "plan: " + plan.error().what;
    std::mt19937 random(seed);
    const auto any = [&](std::size_t n) {
        return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
    };
    const Simulation orders[] = {
        {.exact_ids = true, .choose = any},
        {.exact_ids = false, .choose = any},
        {.exact_ids = true, .choose = [](std::size_t) { return std::size_t{0}; }, .tool_leads_session = true},
        {.exact_ids = false, .choose = [](std::size_t n) { return n - 1; }},
    };
    for (const Simulation& how : orders)
        if (auto done = check(*plan, how); !done) return done.error().what + "\n" + describe(*plan);
    return {};
}

void expect_round_trip(const std::vector<Node>& nodes) {
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
        const std::string wrong = round_trip(nodes, seed);
        ASSERT_EQ(wrong, "") << print(nodes);
    }
}

std::string refusal(std::vector<Node> nodes) {
    const auto plan = make_plan(std::move(nodes));
    return plan ? "planned" : plan.error().what;
}

struct Histories : testing::TestWithParam<Manner> {};

// Nothing is made here that a sanitizer would find in the last history and not in the first ones.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint32_t planned_histories = 1'000;
#else
constexpr std::uint32_t planned_histories = 2'500;
#endif

TEST_P(Histories, comeBackAsTheyWere) {
    std::size_t processes = 0, zombies = 0, orphans = 0, failures = 0;
    for (std::uint32_t seed = 0; seed < planned_histories; ++seed) {
        Manner manner = GetParam();
        manner.steps = 20 + static_cast<int>(seed % 130);
        const std::vector<Node> nodes = History(seed, manner).nodes();
        for (const Node& node : nodes) {
            ++processes;
            zombies += node.zombie;
            orphans += node.orphan;
        }
        const std::string wrong = round_trip(nodes, seed);
        EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << print(nodes);
        if (!wrong.empty() && ++failures == 3) break;
    }
    EXPECT_GT(processes, 10'000u);
    EXPECT_GT(zombies, 1'000u);
    EXPECT_GT(orphans, 1'000u);
}

INSTANTIATE_TEST_SUITE_P(ForestPlan, Histories,
                         testing::Values(Manner{.subreapers = false}, Manner{},
                                         Manner{.subreapers_cease = true},
                                         Manner{.most_alive = 60, .outside = false}));

// Three programs with sessions and orphans of every kind. Session 10 is the shell's; 1 is init.
TEST(ForestPlan, programA) {
    expect_round_trip(
        {{.pid = Id(100), .ppid = Id(10), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(101), .ppid = Id(100), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(102), .ppid = Id(100), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(103), .ppid = Id(100), .sid = Id(103), .pgid = Id(103)},
         {.pid = Id(104), .ppid = Id(103), .sid = Id(103), .pgid = Id(103)},
         {.pid = Id(105), .ppid = Id(103), .sid = Id(103), .pgid = Id(103)},
         {.pid = Id(106), .ppid = Id(1), .sid = Id(103), .pgid = Id(103), .orphan = true},
         {.pid = Id(107), .ppid = Id(106), .sid = Id(103), .pgid = Id(103)},
         {.pid = Id(108), .ppid = Id(106), .sid = Id(103), .pgid = Id(103)}});
}

TEST(ForestPlan, programB) {
    expect_round_trip(
        {{.pid = Id(100), .ppid = Id(10), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(101), .ppid = Id(100), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(102), .ppid = Id(100), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(103), .ppid = Id(100), .sid = Id(103), .pgid = Id(103)},
         {.pid = Id(104), .ppid = Id(103), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(105), .ppid = Id(103), .sid = Id(10), .pgid = Id(100), .session_outside = true},
         {.pid = Id(106), .ppid = Id(103), .sid = Id(103), .pgid = Id(103)}});
}

TEST(ForestPlan, programC) {  // each on a terminal, a part of its own
    expect_round_trip(
        {{.pid = Id(100), .ppid = Id(10), .sid = Id(10), .pgid = Id(100), .session_outside = true}});
    expect_round_trip({{.pid = Id(200),
                        .ppid = Id(20),
                        .sid = Id(20),
                        .pgid = Id(20),
                        .session_outside = true,
                        .group_outside = true}});
}

// Leader 3 forked 4, 4 forked 5, then 4 called setsid: the paper's rule fails here.
TEST(ForestPlan, grandchildBornBeforeSetsid) {
    expect_round_trip({{.pid = Id(3), .ppid = Id(2), .sid = Id(3), .pgid = Id(3)},
                       {.pid = Id(4), .ppid = Id(3), .sid = Id(4), .pgid = Id(4)},
                       {.pid = Id(5), .ppid = Id(4), .sid = Id(3), .pgid = Id(3)}});
}

TEST(ForestPlan, sessionsThatDependOnEachOtherInAChain) {
    // 100 led a session in which 200 was born, 200 led one in which 300 was, and so on; all were orphaned
    // since.
    std::vector<Node> nodes;
    for (int number = 100; number <= 900; number += 100) {
        const Id leader(number);
        nodes.push_back({.pid = leader, .ppid = Id(1), .sid = leader, .pgid = leader, .orphan = true});
        nodes.push_back({.pid = Id(number + 1), .ppid = Id(number + 100), .sid = leader, .pgid = leader});
    }
    nodes.push_back({.pid = Id(1000), .ppid = Id(1), .sid = Id(1000), .pgid = Id(1000), .orphan = true});
    expect_round_trip(nodes);
}

TEST(ForestPlan, deadLeaders) {
    // Session 50 and group 60 in it: both leaders have exited. 61 leads group 61, 62 has joined it.
    expect_round_trip({{.pid = Id(51), .ppid = Id(1), .sid = Id(50), .pgid = Id(50), .orphan = true},
                       {.pid = Id(61), .ppid = Id(51), .sid = Id(50), .pgid = Id(61)},
                       {.pid = Id(62), .ppid = Id(1), .sid = Id(50), .pgid = Id(61), .orphan = true},
                       {.pid = Id(63), .ppid = Id(62), .sid = Id(50), .pgid = Id(60)}});
}

TEST(ForestPlan, groupsThatTheirLeadersLeft) {
    // Each leads the group that the other is in.
    expect_round_trip({{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)},
                       {.pid = Id(11), .ppid = Id(10), .sid = Id(10), .pgid = Id(12)},
                       {.pid = Id(12), .ppid = Id(10), .sid = Id(10), .pgid = Id(11)}});
}

TEST(ForestPlan, zombiesThatLead) {
    expect_round_trip(
        {{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10)},
         {.pid = Id(20),
          .ppid = Id(10),
          .sid = Id(20),
          .pgid = Id(20),
          .zombie = true,
          .wait_status = 3 << 8},
         {.pid = Id(21), .ppid = Id(1), .sid = Id(20), .pgid = Id(20), .orphan = true},
         {.pid = Id(22), .ppid = Id(10), .sid = Id(10), .pgid = Id(22), .zombie = true, .wait_status = 9},
         {.pid = Id(23), .ppid = Id(10), .sid = Id(10), .pgid = Id(22)}});
}

TEST(ForestPlan, subreapersInARow) {
    // 10 and 20 below it are subreapers; 30's session has an orphan of each, and one of init's.
    expect_round_trip({{.pid = Id(10), .ppid = Id(5), .sid = Id(10), .pgid = Id(10), .subreaper = true},
                       {.pid = Id(20), .ppid = Id(10), .sid = Id(10), .pgid = Id(10), .subreaper = true},
                       {.pid = Id(30), .ppid = Id(20), .sid = Id(30), .pgid = Id(30)},
                       {.pid = Id(31), .ppid = Id(20), .sid = Id(30), .pgid = Id(30)},
                       {.pid = Id(32), .ppid = Id(10), .sid = Id(30), .pgid = Id(30)},
                       {.pid = Id(33), .ppid = Id(1), .sid = Id(30), .pgid = Id(30), .orphan = true}});
}

TEST(ForestPlan, refusesTheImpossible) {
    EXPECT_EQ(refusal({{.pid = Id(7), .ppid = Id(1), .sid = Id(7), .pgid = Id(7)},
                       {.pid = Id(7), .ppid = Id(1), .sid = Id(7), .pgid = Id(7)}}),
              "process 7: two images have this pid");
    EXPECT_EQ(refusal({{.pid = Id(7), .ppid = Id(8), .sid = Id(7), .pgid = Id(7)},
                       {.pid = Id(8), .ppid = Id(7), .sid = Id(8), .pgid = Id(8)}}),
              "process 7: it is among its own ancestors");
    EXPECT_EQ(refusal({{.pid = Id(7), .ppid = Id(1), .sid = Id(7), .pgid = Id(7)},
                       {.pid = Id(8), .ppid = Id(7), .sid = Id(7), .pgid = Id(8)},
                       {.pid = Id(9), .ppid = Id(7), .sid = Id(9), .pgid = Id(9)},
                       {.pid = Id(10), .ppid = Id(9), .sid = Id(9), .pgid = Id(8)}}),
              "process 10: its group 8 is in session 7 too (process 8), but a group is in one session only, "
              "here 9");
    EXPECT_EQ(refusal({{.pid = Id(7), .ppid = Id(1), .sid = Id(7), .pgid = Id(9)}}),
              "process 7: it leads its session, but is in group 9; the kernel lets no session leader change "
              "its group");
    EXPECT_EQ(refusal({{.pid = Id(7), .ppid = Id(1), .sid = Id(7), .pgid = Id(7)},
                       {.pid = Id(9), .ppid = Id(7), .sid = Id(8), .pgid = Id(8)},
                       {.pid = Id(8), .ppid = Id(7), .sid = Id(7), .pgid = Id(7)}}),
              "process 9: it is in session 8, but process 8 is in session 7");
    EXPECT_EQ(refusal({{.pid = Id(7), .ppid = Id(1), .sid = Id(7), .pgid = Id(7), .zombie = true},
                       {.pid = Id(9), .ppid = Id(7), .sid = Id(7), .pgid = Id(7)}}),
              "process 9: its parent 7 is a zombie; the kernel would have given it another");
    EXPECT_EQ(refusal({{.pid = Id(7),
                        .ppid = Id(1),
                        .sid = Id(7),
                        .pgid = Id(7),
                        .zombie = true,
                        .wait_status = 0x7f}}),
              "process 7: a zombie with wait status 0x7f, which no exit gives");
    // 8 leads session 8, 9 in it is the child of 7, which leads none: its parent must be above 8, yet 8 is
    // above it.
    EXPECT_EQ(refusal({{.pid = Id(8), .ppid = Id(1), .sid = Id(8), .pgid = Id(8), .orphan = true},
                       {.pid = Id(6), .ppid = Id(8), .sid = Id(6), .pgid = Id(6)},
                       {.pid = Id(7), .ppid = Id(6), .sid = Id(6), .pgid = Id(6)},
                       {.pid = Id(9), .ppid = Id(7), .sid = Id(8), .pgid = Id(8)}}),
              "process 6: no order of forks and exits gives it parent 8 and session 6");
}

// A shell (20) has a job (21, with a group of its own) whose child (22) is the first in a pid namespace. In
// there: one in the job's group; a session with a group whose leader has gone; one of a session whose leader
// has gone, an orphan.
std::vector<Node> in_a_space() {
    const auto node = [](int pid, int ppid, int sid, int pgid, int inner_pid, int inner_sid, int inner_pgid) {
        Node made{.pid = Id(pid), .ppid = Id(ppid), .sid = Id(sid), .pgid = Id(pgid)};
        made.space = inner_pid == 0 ? 0 : 7;
        made.inner_pid = inner_pid;
        made.inner_sid = inner_sid;
        made.inner_pgid = inner_pgid;
        made.inner_last = inner_pid;
        return made;
    };
    return {node(20, 5, 20, 20, 0, 0, 0),    node(21, 20, 20, 21, 0, 0, 0), node(22, 21, 20, 21, 1, 0, 0),
            node(23, 22, 20, 21, 2, 0, 0),   node(24, 22, 24, 24, 3, 3, 3), node(25, 24, 24, 30, 4, 3, 9),
            node(26, 22, 31, 31, 5, 10, 10), node(27, 23, 20, 32, 6, 0, 11)};
}

TEST(ForestPlan, aPidNamespace) {
    expect_round_trip(in_a_space());
    const auto plan = make_plan(in_a_space());
    ASSERT_TRUE(plan) << plan.error().what;
    int makers = 0;
    for (const Process& process : plan->processes) {
        makers += process.role == Role::maker ? 1 : 0;
        const auto& forker = plan->processes[at(std::max(process.forker, 0))];
        EXPECT_EQ(process.space != 0, forker.space != 0 || forker.role == Role::maker) << process.name;
        const std::int32_t number = process.id.number();
        const int wanted = number == 30 ? 9 : number == 31 ? 10 : number == 32 ? 11 : process.inner_id;
        EXPECT_EQ(process.inner_id, wanted) << process.name;
    }
    EXPECT_EQ(makers, 1);
}

// The job's group is that of the namespace's first process, and has been left an orphan, as one in there was.
TEST(ForestPlan, aPidNamespaceBelowAnAdopter) {
    auto nodes = in_a_space();
    nodes.push_back({.pid = Id(28), .ppid = Id(21), .sid = Id(33), .pgid = Id(33)});
    expect_round_trip(nodes);
}

// In that namespace, 23 has a child (40) that is the first in one below, which belongs to another user
// namespace. In there: one in the group that is led outside of both; a session whose leader has gone; a group
// of its own.
std::vector<Node> in_two_spaces() {
    auto nodes = in_a_space();
    for (Node& node : nodes)
        if (node.space == 7) node.owner = 1;
    const auto node = [](int pid, int ppid, int sid, int pgid, int sid_below, int pgid_below, int inner,
                         schema::NamespaceIds around) {
        Node made{.pid = Id(pid), .ppid = Id(ppid), .sid = Id(sid), .pgid = Id(pgid)};
        made.space = 8;
        made.inner_pid = made.inner_last = inner;
        made.inner_sid = sid_below;
        made.inner_pgid = pgid_below;
        made.around = {around};
        made.owner = 2;
        return made;
    };
    nodes.push_back(node(40, 23, 20, 21, 0, 0, 1, {20, 0, 0}));
    nodes.push_back(node(41, 40, 20, 21, 0, 0, 2, {21, 0, 0}));
    nodes.push_back(node(42, 40, 45, 45, 9, 9, 3, {22, 25, 25}));
    nodes.push_back(node(43, 41, 20, 43, 0, 4, 4, {23, 23, 0}));
    return nodes;
}

TEST(ForestPlan, aPidNamespaceBelowAnother) {
    expect_round_trip(in_two_spaces());
    const auto plan = make_plan(in_two_spaces());
    ASSERT_TRUE(plan) << plan.error().what;
    int clerks = 0, makers = 0;
    for (std::size_t i = 0; i < plan->processes.size(); ++i) {
        const Process& process = plan->processes[i];
        clerks += process.role == Role::clerk ? 1 : 0;
        makers += process.role == Role::maker ? 1 : 0;
        const auto questions = questions_of(*plan, static_cast<int>(i));
        if (process.id == Id(45)) {
            EXPECT_EQ(process.space, 8U);
            EXPECT_EQ(process.inner_id, 9);
            EXPECT_EQ(process.ids_around, std::vector<std::int32_t>{25});
        }
        if (process.space != 8) continue;
        ASSERT_EQ(questions.size(), 1U) << process.name;
        EXPECT_EQ(plan->processes[at(questions[0].clerk)].space, 7U);
        EXPECT_EQ(questions[0].id, process.ids_around.empty() ? 26 : process.ids_around[0]) << process.name;
    }
    EXPECT_EQ(clerks, 1);
    EXPECT_EQ(makers, 2);
    // Who has all rights in both asks nobody.
    auto nodes = in_two_spaces();
    for (Node& node : nodes) node.owner = node.space == 0 ? -1 : 1;
    expect_round_trip(nodes);
    const auto other = make_plan(nodes);
    ASSERT_TRUE(other) << other.error().what;
    EXPECT_TRUE(std::ranges::none_of(other->processes,
                                     [](const Process& process) { return process.role == Role::clerk; }));
}

TEST(ForestPlan, pidNamespacesThatNobodyHasMadeSo) {
    auto nodes = in_a_space();
    nodes[3].ppid = Id(21);
    EXPECT_EQ(refusal(nodes), "process 23: its parent 21 can't be the one of a process in its pid namespace");
    nodes = in_a_space();
    nodes[2].inner_pid = 8;
    EXPECT_EQ(refusal(nodes), "process 22: its pid namespace has no first process");
    nodes = in_a_space();
    nodes[3].inner_pid = 1;
    EXPECT_EQ(refusal(nodes), "process 23: its pid namespace has two first processes");
    nodes = in_a_space();
    nodes[7].inner_pgid = 0;
    EXPECT_EQ(refusal(nodes),
              "process 27: it is in group 32, which is led from outside of its pid namespace, and the first "
              "process there "
              "is in another one");
}

TEST(ForestPlan, aThousandProcesses) {
    std::vector<Node> nodes{
        {.pid = Id(2), .ppid = Id(9'999), .sid = Id(2), .pgid = Id(2), .subreaper = true}};
    for (int pid = 3; pid < 1'003; ++pid)
        nodes.push_back({.pid = Id(pid),
                         .ppid = Id(pid % 3 == 0 ? 1 : pid - 1),
                         .sid = Id(2),
                         .pgid = Id(pid % 5 == 0 ? pid : 2),
                         .orphan = pid % 3 == 0});
    const auto plan = make_plan(nodes);
    ASSERT_TRUE(plan) << plan.error().what;
    const auto done = check(*plan, {});
    EXPECT_TRUE(done) << done.error().what;
}

TEST(ForestNodes, areInferredFromImages) {
    std::vector<schema::Process> images(5);
    const auto fill = [&](std::size_t i, int pid, int ppid, int sid, int pgid) {
        images[i].pid = Id(pid);
        images[i].ppid = Id(ppid);
        images[i].sid = Id(sid);
        images[i].pgid = Id(pgid);
    };
    fill(0, 100, 10, 10, 9);      // launched from a shell's script
    fill(1, 101, 100, 101, 101);  // leads a session
    fill(2, 102, 55, 101, 101);   // its orphan; 55 is an outer subreaper
    fill(3, 103, 55, 88, 88);     // an orphan in a session without a leader
    fill(4, 104, 100, 10, 9);
    images[4].run = schema::Run::zombie;
    images[4].exit_status = 0x100;
    const std::vector<Node> nodes = nodes_of(images);
    EXPECT_TRUE(nodes[0].session_outside && nodes[0].group_outside && !nodes[0].orphan);
    EXPECT_FALSE(nodes[1].session_outside || nodes[1].orphan);
    EXPECT_TRUE(nodes[2].orphan);
    EXPECT_TRUE(nodes[3].orphan);
    EXPECT_FALSE(nodes[3].session_outside);
    EXPECT_TRUE(nodes[4].zombie && nodes[4].session_outside && nodes[4].group_outside);
    expect_round_trip(nodes);
}

// (cairn launch prog &) in a shell, a script that has ended: init is the program's parent by then.
TEST(ForestNodes, whoseLauncherHasEndedAreLaunchedAll) {
    std::vector<schema::Process> images(4);
    const auto fill = [&](std::size_t i, int pid, int ppid, int sid, int pgid) {
        images[i].pid = Id(pid);
        images[i].ppid = Id(ppid);
        images[i].sid = Id(sid);
        images[i].pgid = Id(pgid);
        images[i].uid = fmt::format("host-{}-1", pid);
        images[i].cid = "host-100-1";
    };
    fill(0, 100, 1, 10,
         10);  // the first of the computation; 10 is a shell's script without a terminal, which lives
    images[0].session_led_outside = images[0].group_led_outside = true;
    fill(1, 101, 1, 10,
         99);  // another one of that session, launched by a script that led group 99 and has ended
    images[1].session_led_outside = true;
    fill(2, 102, 1, 102, 102);  // a daemon that the first has started
    fill(3, 103, 1, 102, 102);  // what that has left behind
    std::vector<Node> nodes = nodes_of(images);
    for (const int i : {0, 1})
        EXPECT_TRUE(!nodes[at(i)].orphan && nodes[at(i)].session_outside && nodes[at(i)].group_outside) << i;
    for (const int i : {2, 3})
        EXPECT_TRUE(nodes[at(i)].orphan && !nodes[at(i)].session_outside && !nodes[at(i)].group_outside) << i;
    expect_round_trip(nodes);
    fill(0, 100, 1, 10, 10);  // launched by a script in a session of its own, and nobody of that lives
    images[0].session_led_outside = images[0].group_led_outside = false;
    images.resize(1);
    nodes = nodes_of(images);
    EXPECT_TRUE(!nodes[0].orphan && nodes[0].session_outside && nodes[0].group_outside);
    expect_round_trip(nodes);
}

}  // namespace
}  // namespace cairn::restart::forest
