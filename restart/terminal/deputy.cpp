#include "restart/terminal/deputy.h"

#include <unistd.h>

#include <set>

namespace cairn::restart {
namespace {

std::vector<pid_t> with_all_blocked(std::vector<pid_t> programs) {
    const sigset_t all = Deputy::signals();
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    return programs;
}

}  // namespace

std::uint64_t ignored_signals() {
    std::uint64_t ignored = 0;
    for (int number = 1; number < NSIG; ++number) {
        struct sigaction action {};
        if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            ignored |= std::uint64_t{1} << (number - 1);
    }
    return ignored;
}

// The witness, the last member, inherits the mask.
Deputy::Deputy(std::vector<pid_t> programs, std::uint64_t ignored)
    : programs_(with_all_blocked(std::move(programs))), ignored_(ignored) {}

sigset_t Deputy::signals() {
    sigset_t all;
    ::sigfillset(&all);
    return all;
}

void Deputy::pass_on(const Sent& sent, bool to_group) const {
    // Of our own making: SIGPIPE of a write to who has gone.
    if (sent.sender == ::getpid() && sent.code <= 0) return;
    if (!to_group) {
        for (const pid_t program : programs_) {
            if (sent.code == SI_QUEUE)
                (void)::sigqueue(program, sent.number, sent.value);
            else
                (void)::kill(program, sent.number);
        }
        return;
    }
    // A terminal's size is its foreground group's business.
    if (ignores(sent.number) || sent.number == SIGWINCH) return;
    std::set<pid_t> groups;
    for (const pid_t program : programs_) groups.insert(::getpgid(program));
    groups.erase(::getpgrp());
    for (const pid_t group : groups)
        if (group > 1) (void)::kill(-group, sent.number);
}

int Deputy::take_one(const std::function<void(int)>& before) {
    const sigset_t set = signals();
    siginfo_t info{};
    const int number = ::sigwaitinfo(&set, &info);
    if (number <= 0 || number == SIGCHLD) return number;
    const Sent sent{number, info.si_code, info.si_pid, info.si_value};
    before(number);
    pass_on(sent, sent_to_group(sent));
    return number;
}

void Deputy::forget(pid_t child) {
    std::erase(programs_, child);
}

}  // namespace cairn::restart
