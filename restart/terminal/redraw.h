// Programs that have drawn on a screen which is gone draw again.
//
// Full-screen programs know what is on their screen, and write only what changes: on a new terminal, or below
// the line of a shell that restart.sh was typed into, they would stay blank until a key is pressed. What
// makes all of them draw anew is another size: curses compares it with the one that it knows, and does
// nothing where only the signal came (ncurses, resizeterm(3)). So the terminal is a row less for a moment.
#pragma once

#include <sys/types.h>

#include <stop_token>
#include <thread>
#include <vector>

#include "common/fd.h"

namespace cairn::restart {

class Redraw {
  public:
    Redraw() = default;
    // `terminal`: its descriptor, or none; `group`: the kernel's pids of its foreground group. Nothing is
    // done where the terminal gives whole lines (ICANON), or none of these has a handler for SIGWINCH. Done
    // by a thread, within about a second; all signals have to be blocked in the caller.
    Redraw(Fd terminal, std::vector<pid_t> group);

  private:
    std::jthread thread_;
};

}  // namespace cairn::restart
