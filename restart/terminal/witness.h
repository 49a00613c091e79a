// Tells a signal sent to a process group from one sent to this process alone: a process of the same group
// that does nothing but keep what is sent to it.
//
// The kernel says who sent a signal, not to whom (sigaction(2)). The difference matters: of a signal to the
// group (Ctrl-C, the shell's `kill %1`, timeout(1)) the programs in the group have theirs already, and handed
// on it would reach them twice; of one to the pid (`kill $!`, Popen.terminate()) they know nothing.
#pragma once

#include <sys/types.h>

namespace cairn::restart {

class Witness {
  public:
    // All signals must be blocked: the child inherits that. Without a child (a limit on processes) nothing is
    // ever sent to the group as far as is known.
    Witness();
    ~Witness();
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;

    // For a signal that this process has just taken: was it sent to the whole group?
    [[nodiscard]] bool has_got(int number);

  private:
    pid_t pid_ = -1;
};

}  // namespace cairn::restart
