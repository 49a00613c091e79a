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

// Is a signal waiting that is to be handed on to the programs? It stays: whoever hands it on wants to know
// who has sent it.
bool something_waits() {
    sigset_t waiting;
    ::sigpending(&waiting);
    for (const int own : {SIGCONT, SIGCHLD, SIGWINCH, SIGTTIN, SIGTTOU}) ::sigdelset(&waiting, own);
    return ::sigisemptyset(&waiting) == 0;
}

void wait_for_word(const std::vector<const Rebuilding*>& all) {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGCONT);
    ::sigaddset(&set, SIGCHLD);
    constexpr timespec moment = {0, 100'000'000};
    while (!something_waits()) {
        const int number = ::sigtimedwait(&set, nullptr, &moment);
        if (number == SIGCONT) return;
        if (number != SIGCHLD) continue;
        if (std::ranges::none_of(all, [](const auto* one) { return lives(one->pid); })) return;
        forget_stops(all);
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
