// A terminal of our own for programs that can't have the real one: a pseudo-terminal, and a loop that carries
// what is typed and printed between it and the terminal (or the pipe, the file, ...) that the restart was
// started from.
//
// Needed because a terminal controls one session only: where a shell leads the real terminal's session, a
// restored session leader can't get it.
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "common/error.h"
#include "common/fd.h"
#include "common/schema/process.h"

namespace cairn::restart {

class Relay {
  public:
    // What the watcher wants of the relay.
    enum class Next {
        go_on,
        suspend,  // the programs have been stopped from the terminal (Ctrl-Z) and nobody inside takes care of
                  // it: stop this process too, as the real terminal's shell expects; `resumed` is called when
                  // it goes on
        finish,   // they have gone: carry what is left and return
    };
    struct Watcher {
        int fd = -1;                    // polled for reading: a pidfd, a signalfd of SIGCHLD, a pipe
        std::function<Next()> ready;    // called when it is readable (or hung up)
        std::function<void()> resumed;  // may be empty
        // Of each signal that isn't the terminal's own (SIGWINCH, SIGTSTP, SIGCONT): true hangs up. Empty:
        // SIGHUP, SIGTERM and SIGINT hang up, nothing else is blocked.
        std::function<bool(const signalfd_siginfo&)> signalled;
    };
    enum class End {
        finished,    // the watcher said so
        hung_up,     // the terminal has gone (SIGHUP): so has the inner one, whose session gets SIGHUP
        terminated,  // the same, by another signal
    };

    // `in` and `out` are borrowed; usually 0 and 1. The inner terminal gets the settings and the size of `in`
    // if that is a terminal, else those given (struct termios2, struct winsize; may be empty).
    [[nodiscard]] static Result<Relay> create(int in, int out, const schema::Bytes& termios,
                                              const schema::Bytes& winsize);
    Relay(Relay&&) noexcept;
    Relay& operator=(Relay&&) noexcept;
    ~Relay();  // the real terminal gets its settings back; the inner one is hung up

    // What the programs get. Close-on-exec.
    [[nodiscard]] int slave() const;
    // Once the programs have it: as long as it is open here, the relay can't tell that they have closed it.
    void close_slave();

    // Carries until the watcher says finish, or a hang-up. Sets the real terminal raw while this is its
    // foreground job. Blocks the signals that it takes (by signalfd) for the call: no other thread may take
    // them. Call close_slave() first.
    [[nodiscard]] Result<End> run(const Watcher& watcher);

  private:
    struct State;
    explicit Relay(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace cairn::restart
