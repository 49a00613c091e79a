#include "restart/pause.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/human.h"
#include "common/proc.h"
#include "restart/rebuild/leave.h"

namespace cairn::restart {
namespace {

bool stands(pid_t pid) {
    const auto stat = proc::stat(pid);
    return stat && stat->state == 'T';
}

bool lives(pid_t pid) {
    const auto stat = proc::stat(pid);
    return stat && stat->state != 'Z' && stat->state != 'X';
}

// Of our own children the stop was told to us: whoever follows stops of the programs must not take it for one
// that was sent to them.
void forget_stops(const std::vector<const Rebuilding*>& all) {
    for (const auto* one : all) {
        siginfo_t info{};
        ::waitid(P_PID, static_cast<id_t>(one->pid), &info, WSTOPPED | WNOHANG);
    }
}

void wait_for_word(const std::vector<const Rebuilding*>& all) {
    const sigset_t set = Deputy::signals();
    for (;;) {
        siginfo_t info{};
        const int number = ::sigwaitinfo(&set, &info);
        if (number == SIGCONT) return;
        const bool end = std::ranges::none_of(all, [](const auto* one) { return lives(one->pid); });
        if (number == SIGCHLD && !end) {
            forget_stops(all);
            continue;
        }
        if (number < 0 || number == SIGWINCH || number == SIGTTIN || number == SIGTTOU) continue;
        // It waits, blocked, until the programs go on, and is handed on to them then.
        ::kill(::getpid(), number);
        return;
    }
}

}  // namespace

Result<> stand_still(const std::vector<const Rebuilding*>& running) {
    for (const auto* one : running) CHECK_OK(let_stand(*one));
    forget_stops(running);
    return {};
}

void wait_paused(const std::vector<const Rebuilding*>& running, const Notes& notes) {
    std::string pids;
    constexpr std::size_t most = 20;
    for (std::size_t i = 0; i < running.size() && i < most; ++i)
        pids += fmt::format("{}{} ({})", i == 0 ? "" : ", ", running[i]->pid, running[i]->process->name);
    if (running.size() > most) pids += fmt::format(" and {} more", running.size() - most);
    notes.say(
        "paused: {} before the first instruction: {}; attach a debugger (gdb -p PID), and `kill -CONT {}` "
        "lets all go "
        "on",
        human_count(running.size(), "process stands", "processes stand"), pids, ::getpid());
    wait_for_word(running);
    // One that a debugger holds, or has let go on already, is left to it.
    for (const auto* one : running)
        if (stands(one->pid)) ::kill(one->pid, SIGCONT);
}

}  // namespace cairn::restart
