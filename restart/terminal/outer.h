// The terminal that the restart was started from, and how the computation gets it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "common/error.h"
#include "common/fd.h"
#include "common/schema/process.h"
#include "resources/schema/object.h"
#include "restart/terminal/deputy.h"
#include "restart/terminal/relay.h"

namespace cairn::restart {

// In a process that has just become a session's leader: the terminal controls the session, TIOCSCTTY. False:
// it doesn't, which is told on standard error (the tool's notes are out of reach from there). `process`: of
// the session.
[[nodiscard]] bool take_as_controlling(int terminal, const schema::Process& process);

// A terminal controls one session:
//  - the programs' session was led from outside (a shell): they come back in the tool's own session, which
//    has the terminal; the tool passes on what the shell does to it (stop, continue);
//  - its leader is a program of the computation, and the tool leads the terminal's session: the tool gives
//    the terminal up and the restored leader takes it;
//  - the same, but somebody else leads the terminal's session, or there is no terminal: an inner one with a
//    relay.
class OuterTerminal {
  public:
    OuterTerminal() = default;

    // `image`: the terminal object of the checkpoint, null if no program had one.
    [[nodiscard]] static Result<OuterTerminal> choose(const schema::Object* image, bool leader_is_ours);

    // What stands for it in the new computation, -1: nothing.
    [[nodiscard]] int fd() const;
    // May the restored foreground group be the terminal's? Not if the restart runs in the background.
    [[nodiscard]] bool foreground() const { return foreground_; }

    // In the tool, when the programs run: waits until its children have ended, and hands on what is sent to
    // it meanwhile. The wait status of `first`, 0 if that was no child. `ended` is told of every child that
    // has.
    using Ended = std::function<void(pid_t, int status)>;
    [[nodiscard]] Result<int> stay(pid_t first, Deputy& deputy, const Ended& ended);

  private:
    // False when no child is left.
    [[nodiscard]] bool reap(pid_t first, const Ended& ended);
    void follow_stop(pid_t child, int signal);
    // The terminal's foreground is the programs' where it is ours.
    void hand_over(pid_t group) const;
    void take_back() const;
    [[nodiscard]] Result<> carry(pid_t first, Deputy& deputy, const Ended& ended);

    Fd terminal_;
    std::optional<Relay> relay_;
    bool foreground_ = true;
    bool shared_ = false;  // the programs are in the tool's session
    int result_ = 0;
};

}  // namespace cairn::restart
