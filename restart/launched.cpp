#include "restart/launched.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

namespace cairn::restart {
namespace {

void die_with_parent(schema::Process& process) {
    const auto living = std::ranges::find(process.threads, false, &schema::Thread::leader_dead);
    const bool asked = std::ranges::any_of(
        process.threads, [](const schema::Thread& thread) { return thread.death_signal != 0; });
    if (living != process.threads.end() && !asked) living->death_signal = SIGKILL;
}

void ignore_hang_up(schema::Process& process, std::uint64_t ignored) {
    constexpr std::size_t hang_up = SIGHUP - 1;
    if ((ignored >> hang_up & 1) == 0 || process.actions.size() <= hang_up) return;
    auto& handler = process.actions[hang_up].handler;
    if (handler == ProgramAddress(reinterpret_cast<std::uint64_t>(SIG_DFL)))
        handler = ProgramAddress(reinterpret_cast<std::uint64_t>(SIG_IGN));
}

}  // namespace

std::vector<ProgramId> launched_programs(std::span<const forest::Node> nodes) {
    std::set<ProgramId> pids;
    for (const auto& node : nodes) pids.insert(node.pid);
    std::vector<ProgramId> launched;
    for (const auto& node : nodes)
        if (!node.zombie && !node.orphan && !pids.contains(node.ppid)) launched.push_back(node.pid);
    return launched;
}

void tie_to_tool(std::span<schema::Process> processes, std::span<const forest::Node> nodes,
                 std::uint64_t ignored) {
    const auto launched = launched_programs(nodes);
    const std::set<ProgramId> ours(launched.begin(), launched.end());
    std::set<ProgramId> outside;
    for (const auto& node : nodes)
        if (node.session_outside) outside.insert(node.pid);
    for (auto& process : processes) {
        if (ours.contains(process.pid)) die_with_parent(process);
        if (outside.contains(process.pid)) ignore_hang_up(process, ignored);
    }
}

int end_as(int status) {
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const int number = WTERMSIG(status);
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    ::signal(number, SIG_DFL);
    ::raise(number);
    sigset_t all;
    ::sigemptyset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    return 128 + number;
}

}  // namespace cairn::restart
