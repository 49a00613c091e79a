// The restart tool in the launched programs' place. Whoever has started a restart (a shell, a script, a
// supervisor) knows the tool's pid and no other, as he knew the launched program's: what he sends to it is
// meant for the programs.
//
// What is sent, and what becomes of it:
//  - to the tool's pid: it is handed on to each launched program, to that process alone.
//  - to the tool's group, by a terminal or a kill: members of the group have it already. The groups of
//    the other launched programs get it too, unless the restart was started with it ignored (nohup, `&` of
//    a script).
//  - SIGKILL to the tool: the launched programs get it (PR_SET_PDEATHSIG).
//  - SIGSTOP to the tool: it stops the tool alone; nobody can take that signal.
//
// Until the programs run (the barrier) a signal is the tool's own: it ends, and nothing is left of the
// restart.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "restart/terminal/witness.h"

namespace cairn::restart {

// Bit n-1: signal n is ignored by this process.
[[nodiscard]] std::uint64_t ignored_signals();

// A signal, as sigwaitinfo(2) or a signalfd tells it.
struct Sent {
    int number = 0, code = 0;
    pid_t sender = 0;
    sigval value = {};
};

class Deputy {
  public:
    // Blocks all signals from here on: they wait until somebody takes them. `programs`: the kernel's pids of
    // the launched programs, children of this process. `ignored`: ignored_signals() when the restart began.
    Deputy(std::vector<pid_t> programs, std::uint64_t ignored);

    // What is to be read. Taking the terminal's own stops (SIGTTIN, SIGTTOU) away is left to who wants it.
    [[nodiscard]] static sigset_t signals();
    [[nodiscard]] bool ignores(int number) const { return (ignored_ >> (number - 1) & 1) != 0; }

    // Was this one sent to the whole group? For each signal taken to be asked once at most, and at once.
    [[nodiscard]] bool sent_to_group(const Sent& sent) { return witness_.has_got(sent.number); }
    // Hands it on.
    void pass_on(const Sent& sent, bool to_group) const;
    // Waits for the next signal, and hands it on if it isn't SIGCHLD; `before` is called in between, with its
    // number. Returns its number.
    int take_one(const std::function<void(int)>& before);

    // A child has ended and was reaped: its pid may be anybody's from now on.
    void forget(pid_t child);

  private:
    std::vector<pid_t> programs_;
    std::uint64_t ignored_;
    Witness witness_;
};

}  // namespace cairn::restart
