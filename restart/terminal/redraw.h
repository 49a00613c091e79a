// Programs that have drawn on a screen which is gone draw again.
//
// Full-screen programs know what is on their screen, and write only what changes: on a new terminal, or below
// the line of a shell that restart.sh was typed into, they would stay blank until a key is pressed. What
// makes all of them draw anew is another size: curses compares it with the one that it knows, and does
// nothing where only the signal came (ncurses, resizeterm(3)). So the terminal is a row less for a moment.
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/fd.h"

namespace cairn::restart {

// `group`: the kernel's pids of the terminal's foreground group. Nothing is done where the terminal gives
// whole lines (ICANON), or none of these has a handler for SIGWINCH. Takes 50 ms, and 300 ms at the most. By
// no thread: a process that has a time namespace for its children can't make one (copy_process() of
// Linux 6.1).
void draw_again(const Fd& terminal, std::vector<pid_t> group);

}  // namespace cairn::restart
